import { workloads } from '../../packages/driver-wgpu/test/protect/workloads/all.ts'
import { onBareDevice, onProtectedDevice } from '../../packages/driver-wgpu/test/support/run-workload.ts'
import type { Checkpoints } from '../../packages/driver-wgpu/test/support/run-workload.ts'
import type { Figure } from '../figure.ts'
import { control } from './rig.ts'

const wanted = 2000
const points = ['submit', 'fence', 'map'] as const

/** Goes through all the points of all workloads, round after round, until enough devices were lost. */
export async function measure(): Promise<Figure[]> {
  const references = new Map<string, Uint8Array>()
  for (const workload of workloads) references.set(workload.name, await onBareDevice(workload))
  let [losses, runs, exact, troubled] = [0, 0, 0, 0]
  for (let round = 0; losses < wanted; round += 1) {
    for (const workload of workloads) {
      const reference = references.get(workload.name) as Uint8Array
      const checkpoint = [undefined, 'waiting', 'alongside'][round % 3] as Checkpoints | undefined
      for (const point of points) {
        control.heal()
        const before = control.count(point)
        await onProtectedDevice(workload, { checkpoint })
        const total = control.count(point) - before
        // Fences are polled thousands of times: other ones in each round.
        const stride = point === 'fence' ? Math.ceil(total / 20) : 1
        for (let nth = 1 + (round % stride); nth <= total && losses < wanted; nth += stride) {
          control.heal()
          const arm = (): void => control.loseAt(point, nth)
          const outcome = await onProtectedDevice(workload, { arm, checkpoint })
          runs += 1
          losses += outcome.losses
          exact += Buffer.compare(outcome.result, reference) === 0 ? 1 : 0
          troubled += outcome.troubles.length
          // It takes a quarter of an hour: whoever waits sees that it goes on.
          if (runs % 100 === 0) console.error(`${losses} losses, ${exact} of ${runs} runs exact, ${troubled} troubles`)
        }
      }
    }
  }
  return [
    { figure: 'losses injected', value: losses, unit: 'losses', bar: `>= ${wanted}`, pass: losses >= wanted },
    {
      figure: 'runs with a loss that ended bit-exact',
      value: exact,
      unit: 'runs',
      against: `${runs} runs`,
      ratio: exact / runs,
      bar: 'all',
      pass: exact === runs,
    },
    {
      figure: 'results diverged, incomplete or given up',
      value: troubled,
      unit: 'results',
      bar: '0',
      pass: troubled === 0,
    },
  ]
}
