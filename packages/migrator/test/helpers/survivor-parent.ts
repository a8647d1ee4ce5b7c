import { directoryStore, survive } from '@egpu/migrator/node'
import type { ParentOptions } from './survivors.ts'

/** Runs work in a child, kills that child as often as it is told to, and prints what came of it. */
const options = JSON.parse(process.argv[2] ?? '{}') as ParentOptions
const { module = '', kills = 0, hangMs = 1_000_000, maxDeaths = 3, store } = options
const deaths: string[] = []
const told: string[] = []
const run = survive(module, {
  hangMs,
  maxDeaths,
  store: store === undefined ? undefined : directoryStore(store),
  onDeath: (cause) => {
    deaths.push(cause)
    process.env['SURVIVOR_BORN'] = String(deaths.length)
  },
  onEvent: (event) => {
    if (event.type === 'checkpoint-saved' && deaths.length < kills && run.pid !== undefined) {
      process.kill(run.pid, 'SIGKILL')
    }
    if (event.type !== 'checkpoint-failed') return
    told.push(`${event.error.code} ${event.error.message}`)
    // Nothing will come of it.
    void run.close()
  },
})
const outcome = await run.finished.catch(({ code, message, cause }: NodeJS.ErrnoException) => {
  const { name, code: of } = (cause ?? {}) as NodeJS.ErrnoException
  return { code, message, cause: { name, code: of } }
})
await run.close()
console.log(JSON.stringify({ outcome, deaths, told }))
