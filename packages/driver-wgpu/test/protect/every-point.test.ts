import { afterEach, describe, expect, test } from 'vitest'
import { wgpuDriver } from '../../src/index.ts'
import { heldDeviceCount } from '../../src/device/held-devices.ts'
import { protectDevice, protectionOf } from '../../src/protect/protect-device.ts'
import type { ProtectionEvent } from '../../src/protect/events.ts'
import { useRealVulkan } from '../support/real-vulkan.ts'
import { compute } from './workloads/compute.ts'
import { mapping } from './workloads/mapping.ts'
import { render } from './workloads/render.ts'
import { textures } from './workloads/textures.ts'
import type { Workload } from './workloads/workload.ts'

const control = useRealVulkan()

afterEach(() => {
  const left = heldDeviceCount() + control.liveDevices
  if (left !== 0) throw new Error(`${left} devices were left behind`)
})

async function onBareDevice(workload: Workload): Promise<Uint8Array> {
  await using driver = wgpuDriver()
  const [target] = await driver.runtime.targets()
  const open = await driver.runtime.open(target?.id ?? '')
  return await workload.run(open.handle, () => {})
}

interface Outcome {
  readonly result: Uint8Array
  readonly losses: number
  readonly troubles: readonly ProtectionEvent[]
}

/** Runs a workload on a protected device; `arm` and `pause` are where the device is taken away. */
async function onProtectedDevice(
  workload: Workload,
  { arm = () => {}, pause = () => {}, checkpoint = false }: { arm?(): void; pause?(): void; checkpoint?: boolean },
): Promise<Outcome> {
  const troubles: ProtectionEvent[] = []
  const expected = new Set(['lost', 'recovered', 'checkpointed'])
  const device = await protectDevice({
    checkpoint: { intervalMs: Number.POSITIVE_INFINITY, chunkBytes: 4096 },
    heartbeat: { intervalMs: 1000 },
    onEvent: (event) => {
      if (!expected.has(event.type)) troubles.push(event)
    },
  })
  const protection = protectionOf(device)
  arm()
  const result = await workload.run(device, async () => {
    pause()
    if (checkpoint) await protection.checkpoint()
  })
  // The loss may have hit the last thing there was, which nobody waits for.
  await device.queue.onSubmittedWorkDone()
  device.destroy()
  await device.lost
  return { result, losses: protection.stats.losses, troubles }
}

describe.each([compute, render, textures, mapping])('$name', (workload) => {
  test('gives on the protected device what it gives on a bare one', async () => {
    const reference = await onBareDevice(workload)
    expect(await onProtectedDevice(workload, {})).toEqual({ result: reference, losses: 0, troubles: [] })
    expect(await onProtectedDevice(workload, { checkpoint: true })).toEqual({
      result: reference,
      losses: 0,
      troubles: [],
    })
  })

  test('survives a loss at every submit, fence and map, bit-exact', { timeout: 180_000 }, async () => {
    const reference = await onBareDevice(workload)
    for (const checkpoint of [false, true]) {
      for (const point of ['submit', 'fence', 'map'] as const) {
        const before = control.count(point)
        await onProtectedDevice(workload, { checkpoint })
        const total = control.count(point) - before
        // Fences are polled thousands of times; ten places among them are as good as all.
        for (let nth = 1; nth <= total; nth += point === 'fence' ? Math.ceil(total / 10) : 1) {
          control.heal()
          const arm = (): void => control.loseAt(point, nth)
          const { result, troubles } = await onProtectedDevice(workload, { arm, checkpoint })
          expect({ point, nth, checkpoint, isSame: Buffer.compare(result, reference) === 0, troubles }).toEqual({
            point,
            nth,
            checkpoint,
            isSame: true,
            troubles: [],
          })
        }
      }
    }
  })

  test('survives a loss at every await, bit-exact', { timeout: 60_000 }, async () => {
    const reference = await onBareDevice(workload)
    let awaits = 0
    await onProtectedDevice(workload, { pause: () => void (awaits += 1) })
    for (let at = 1; at <= awaits; at += 1) {
      let passed = 0
      const pause = (): void => {
        passed += 1
        if (passed === at) control.loseAt('submit', 1)
      }
      control.heal()
      const { result, losses, troubles } = await onProtectedDevice(workload, { pause })
      expect({ at, losses, troubles }).toEqual({ at, losses: 1, troubles: [] })
      expect(Buffer.compare(result, reference)).toBe(0)
    }
    expect(awaits).toBeGreaterThan(4)
  })
})
