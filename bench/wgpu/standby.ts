import { checkpointBuffers, protectDevice, protectionOf, wgpuDriver } from '@egpu/driver-wgpu'
import type { OpenTarget } from '@egpu/core'
import { expectedState, readBack, startSteps } from '../../packages/driver-wgpu/test/support/workload.ts'
import type { Steps } from '../../packages/driver-wgpu/test/support/workload.ts'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'
import { control } from './rig.ts'

const losses = 150

interface TakeOvers {
  readonly rto: readonly number[]
  readonly wrong: number
}

/** By hand, through the driver: state restored (16 KiB), one step done and read back, with a pipeline made before. */
async function byHand(): Promise<TakeOvers> {
  const expected = expectedState(2)
  await using driver = wgpuDriver({ heartbeat: { intervalMs: 1000 } })
  const [only] = await driver.runtime.targets()
  const id = only?.id ?? ''
  const rto: number[] = []
  let wrong = 0
  const ready = new WeakMap<GPUDevice, Steps>()
  const prepare = async ({ handle }: OpenTarget<GPUDevice>): Promise<void> => {
    const steps = startSteps(handle)
    steps.step()
    await handle.queue.onSubmittedWorkDone()
    ready.set(handle, steps)
  }
  for (let at = 0; at < losses; at += 1) {
    const target = await driver.runtime.open(id)
    const steps = startSteps(target.handle)
    const checkpoint = checkpointBuffers(target, { state: steps.state })
    steps.step()
    const frozen = checkpoint.freeze(1)
    const bytes = new Uint8Array(steps.state.size)
    await frozen.drainInto('state', bytes)
    await driver.runtime.standBy(id, { prepare })
    control.loseAt('submit', 1)
    const lostAt = performance.now()
    steps.step()
    const waiting = setInterval(() => {}, 1000)
    await target.lost
    clearInterval(waiting)
    const next = await driver.runtime.open(id)
    const again = ready.get(next.handle) ?? startSteps(next.handle)
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
  return { rto: rto.slice(5), wrong }
}

/** The same with a protected device that keeps one: a step and its result, as if nothing had happened. */
async function ofProtectedDevice(): Promise<TakeOvers> {
  let stands = (): void => {}
  const standing = (): Promise<void> => new Promise((resolve) => (stands = resolve))
  let next = standing()
  const device = await protectDevice({
    standBy: true,
    checkpoint: { intervalMs: Infinity },
    onEvent: ({ type }) => {
      if (type === 'standing-by') stands()
    },
  })
  const steps = startSteps(device)
  const rto: number[] = []
  let wrong = 0
  const waiting = setInterval(() => {}, 1000)
  for (let at = 0; at < losses; at += 1) {
    await next
    next = standing()
    steps.step()
    await protectionOf(device).checkpoint()
    control.loseAt('submit', 1)
    const lostAt = performance.now()
    steps.step()
    const result = await readBack(device, steps.state)
    rto.push(performance.now() - lostAt)
    const expected = expectedState(2 * (at + 1))
    if (!result.every((word, index) => word === expected[index])) wrong += 1
  }
  clearInterval(waiting)
  device.destroy()
  await device.lost
  return { rto: rto.slice(5), wrong }
}

function figuresOf(kind: string, { rto, wrong }: TakeOvers): Figure[] {
  const [p50, p99] = [percentile(rto, 0.5), percentile(rto, 0.99)]
  return [
    { figure: `warm RTO p50${kind}`, value: p50, unit: 'ms' },
    { figure: `warm RTO p99${kind}`, value: p99, unit: 'ms', bar: '<= 50 ms', ratio: p99 / 50, pass: p99 <= 50 },
    {
      figure: `wrong results after a warm take-over${kind}`,
      value: wrong,
      unit: `of ${losses}`,
      bar: '0',
      pass: wrong === 0,
    },
  ]
}

/** From the call that loses the device to a verified result of the next, with a device that stands by. */
export async function measure(): Promise<Figure[]> {
  const protectedDevice = await ofProtectedDevice()
  return [...figuresOf('', await byHand()), ...figuresOf(' of a protected device', protectedDevice)]
}
