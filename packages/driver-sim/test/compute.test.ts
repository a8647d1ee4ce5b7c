import { EGpuErrorCode, systemClock } from '@egpu/core'
import type { Clock, OpenTarget } from '@egpu/core'
import { afterEach, describe, expect, it } from 'vitest'
import { simDriver, VirtualClock } from '../src/index.ts'
import type { SimDriver, SimGpu } from '../src/index.ts'

const drivers: SimDriver[] = []
afterEach(async () => {
  for (const driver of drivers.splice(0)) await driver.close()
})

async function opened(clock: Clock): Promise<{ driver: SimDriver; target: OpenTarget; gpu: SimGpu }> {
  const driver = simDriver({
    clock,
    enclosures: [{ id: 'box', plugged: true, gpus: [{ id: 'gpu', memoryBytes: 2 ** 30, flops: 1e12 }] }],
  })
  drivers.push(driver)
  const [offer] = await driver.runtime.targets()
  const target = await driver.runtime.open(offer?.id ?? '')
  return { driver, target, gpu: target.handle as SimGpu }
}

describe('compute on a simulated GPU', () => {
  for (const [name, clock] of [
    ['virtual', new VirtualClock()],
    ['real', systemClock],
  ] as const) {
    it(`runs kernels over real bytes in ${name} time`, async () => {
      const { gpu } = await opened(clock)
      const buffer = gpu.createBuffer(4 * 4)
      const work = (async () => {
        await gpu.write(buffer, new Uint32Array([1, 2, 3, 4]))
        await gpu.run((bytes) => {
          const values = new Uint32Array(bytes(buffer))
          for (let index = 0; index < values.length; index += 1) values[index] = (values[index] ?? 0) * 10
        })
        return new Uint32Array((await gpu.read(buffer)).buffer)
      })()
      const result = clock instanceof VirtualClock ? await clock.runUntil(work) : await work
      expect([...result]).toEqual([10, 20, 30, 40])
    })
  }

  it('takes modelled time for a kernel and for a transfer over the link', async () => {
    const clock = new VirtualClock()
    const { driver, gpu } = await opened(clock)
    await clock.runUntil(gpu.run(() => undefined, { flops: 5e11 }))
    expect(clock.now()).toBeCloseTo(500, 0)

    const link = (await driver.list()).devices[0]?.link?.effectiveGBps?.fromDevice ?? Number.NaN
    const before = clock.now()
    await clock.runUntil(gpu.read(gpu.createBuffer(2 ** 24)))
    expect(clock.now() - before).toBeCloseTo(2 ** 24 / (link * 1e6), 0)
  })

  it('rejects a pending call with EGPU_DEVICE_LOST when the cable is pulled, and keeps no byte', async () => {
    const clock = new VirtualClock()
    const { driver, target, gpu } = await opened(clock)
    const buffer = gpu.createBuffer(8)
    let view = new Uint8Array()
    await clock.runUntil(
      gpu.run((bytes) => {
        view = new Uint8Array(bytes(buffer)).fill(7)
      }),
    )
    const pending = gpu.run(() => undefined, { flops: 1e12 })
    const queued = gpu.read(buffer)
    const settled = Promise.allSettled([pending, queued])
    await clock.advance(100)
    driver.machine.enclosure('box').yank()
    expect(await settled).toMatchObject([
      { status: 'rejected', reason: { code: EGpuErrorCode.DeviceLost } },
      { status: 'rejected', reason: { code: EGpuErrorCode.DeviceLost } },
    ])
    expect(view.byteLength).toBe(0)
    expect(await target.lost).toMatchObject({ reason: 'unplugged', atMs: clock.now() })
    await expect(gpu.read(buffer)).rejects.toMatchObject({ code: EGpuErrorCode.DeviceLost })
    expect(clock.sleeping).toBe(0)
  })
})
