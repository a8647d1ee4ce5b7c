import { writeSync } from 'node:fs'
import { systemClock } from '@egpu/core'
import { simDriver } from '@egpu/driver-sim'
import type { Work } from '@egpu/migrator/node'
import { Mixer } from './mixer.ts'

/** Work for a child of `survive`: a computation on a simulated GPU in real time. */
const work: Work = () => {
  // Too slow to be done before it was killed as often as that, however busy the machine is.
  const isSlow =
    process.env['SURVIVOR'] === 'slow until killed 3 times' && Number(process.env['SURVIVOR_BORN'] ?? 0) < 3
  const mixer = new Mixer({ clock: systemClock, words: 64, steps: 400, stepMs: isSlow ? 100 : 1 })
  if (process.env['SURVIVOR'] === 'poison') setTimeout(() => process.abort(), 20)
  if (process.env['SURVIVOR'] === 'hang') setTimeout(hangOnce, 300)
  if (process.env['SURVIVOR'] === 'hang at once') hangForEver()
  return {
    drivers: [simDriver({ gpus: [{ name: 'inside' }] })],
    workload: mixer,
    config: { checkpointIntervalMs: 20 },
    result: () => {
      if (process.env['SURVIVOR'] === 'fail at the end') throw new RangeError('the result is lost')
      return mixer.result
    },
  }
}

/** What a driver call that never returns does to an event loop. */
function hangOnce(): void {
  if (process.env['SURVIVOR_BORN'] !== undefined) return
  for (;;);
}

/** Says first who it is: nothing else will be heard of it. */
function hangForEver(): void {
  writeSync(1, `${process.pid}\n`)
  for (;;);
}

export default work
