import { checkpointBuffers, wgpuDriver } from '@egpu/driver-wgpu'
import { expectedState, readBack, startSteps } from '../../packages/driver-wgpu/test/support/workload.ts'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'
import { control } from './rig.ts'

const losses = 150

/**
 * From the call that loses the device to a verified result of the next, with a device that stands by: state restored
 * (16 KiB), pipeline made, one step done and read back.
 */
export async function measure(): Promise<Figure[]> {
  await using driver = wgpuDriver({ heartbeat: { intervalMs: 1000 } })
  const [only] = await driver.runtime.targets()
  const id = only?.id ?? ''
  const rto: number[] = []
  let wrong = 0
  for (let at = 0; at < losses; at += 1) {
    const target = await driver.runtime.open(id)
    const steps = startSteps(target.handle)
    const checkpoint = checkpointBuffers(target, { state: steps.state })
    steps.step()
    const frozen = checkpoint.freeze(1)
    const bytes = new Uint8Array(steps.state.size)
    await frozen.drainInto('state', bytes)
    await driver.runtime.standBy(id)
    control.loseAt('submit', 1)
    const lostAt = performance.now()
    steps.step()
    const waiting = setInterval(() => {}, 1000)
    await target.lost
    clearInterval(waiting)
    const next = await driver.runtime.open(id)
    const again = startSteps(next.handle)
    using restoring = checkpointBuffers(next, { state: again.state })
    await restoring.restore({
      progress: 1,
      parts: frozen.parts,
      async *read() {
        yield bytes
      },
    })
    again.step()
    const result = await readBack(next.handle, again.state)
    rto.push(performance.now() - lostAt)
    if (!result.every((word, index) => word === expected[index])) wrong += 1
    await next.close()
    await target.close()
  }
  const [p50, p99] = [percentile(rto.slice(5), 0.5), percentile(rto.slice(5), 0.99)]
  return [
    { figure: 'warm RTO p50', value: p50, unit: 'ms' },
    { figure: 'warm RTO p99', value: p99, unit: 'ms', bar: '<= 50 ms', ratio: p99 / 50, pass: p99 <= 50 },
    { figure: 'wrong results after a warm take-over', value: wrong, unit: `of ${losses}`, bar: '0', pass: wrong === 0 },
  ]
}

const expected = expectedState(2)
