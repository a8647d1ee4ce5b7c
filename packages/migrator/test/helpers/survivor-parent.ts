import { survive } from '@egpu/migrator/node'

/** Runs the work in a child and kills that child `kills` times; prints what came of it. */
const kills = Number(process.argv[2])
const hangMs = Number(process.argv[3] ?? 10_000)
const deaths: string[] = []
let checkpoints = 0
const run = survive(new URL('./survivor-work.ts', import.meta.url), {
  hangMs,
  maxDeaths: 3,
  onDeath: (cause) => {
    deaths.push(cause)
    process.env['SURVIVOR_BORN'] = String(deaths.length)
  },
  onEvent: ({ type }) => {
    if (type !== 'checkpoint-saved') return
    checkpoints += 1
    if (checkpoints % 3 === 0 && deaths.length < kills && run.pid !== undefined) process.kill(run.pid, 'SIGKILL')
  },
})
const outcome = await run.finished.catch((error: unknown) => ({ error: String(error) }))
await run.close()
console.log(JSON.stringify({ outcome, deaths }))
