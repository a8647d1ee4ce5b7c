import { survive } from '@egpu/migrator/node'

/** Runs the work in a child and kills that child `kills` times; prints what came of it. */
const kills = Number(process.argv[2])
const hangMs = Number(process.argv[3])
const maxDeaths = Number(process.argv[4] ?? 3)
const module = process.argv[5]
const deaths: string[] = []
const work = new URL('./survivor-work.ts', import.meta.url)
const run = survive(module === undefined ? work : new URL(module, import.meta.url), {
  hangMs,
  maxDeaths,
  onDeath: (cause) => {
    deaths.push(cause)
    process.env['SURVIVOR_BORN'] = String(deaths.length)
  },
  onEvent: ({ type }) => {
    if (type !== 'checkpoint-saved') return
    if (deaths.length < kills && run.pid !== undefined) process.kill(run.pid, 'SIGKILL')
  },
})
const outcome = await run.finished.catch((error: unknown) => ({ error: String(error) }))
await run.close()
console.log(JSON.stringify({ outcome, deaths }))
