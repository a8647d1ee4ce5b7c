import { systemClock } from '@egpu/core'
import { simDriver } from '@egpu/driver-sim'
import type { Work } from '@egpu/migrator/node'
import { Mixer } from './mixer.ts'

export const words: number = 4_096
export const steps: number = 500

/** A second of work in real time, saved every few milliseconds, for children that are killed. */
const work: Work = () => {
  const mixer = new Mixer({ clock: systemClock, words, steps, stepMs: 1 })
  return {
    drivers: [simDriver({ gpus: [{ name: 'inside' }] })],
    workload: mixer,
    config: { checkpointIntervalMs: 15 },
    result: () => mixer.result,
  }
}

export default work
