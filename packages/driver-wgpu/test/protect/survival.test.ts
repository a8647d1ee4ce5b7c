import { afterEach, describe, expect, test } from 'vitest'
import { heldDeviceCount } from '../../src/device/held-devices.ts'
import { workloads } from './workloads/all.ts'
import { useRealVulkan } from '../support/real-vulkan.ts'
import { onBareDevice, onProtectedDevice } from '../support/run-workload.ts'

const control = useRealVulkan()

afterEach(() => {
  const left = heldDeviceCount() + control.liveDevices
  if (left !== 0) throw new Error(`${left} devices were left behind`)
})

describe.each(workloads)('$name', (workload) => {
  test('gives on the protected device what it gives on a bare one', async () => {
    const reference = await onBareDevice(workload)
    expect(await onProtectedDevice(workload, {})).toEqual({ result: reference, losses: 0, troubles: [] })
    expect(await onProtectedDevice(workload, { checkpoint: true })).toEqual({
      result: reference,
      losses: 0,
      troubles: [],
    })
  })

  test.each([false, true])(
    'survives a loss at every await, bit-exact, checkpoints: %s',
    { timeout: 60_000 },
    async (checkpoint) => {
      const reference = await onBareDevice(workload)
      let awaits = 0
      await onProtectedDevice(workload, { pause: () => void (awaits += 1) })
      for (let at = 1; at <= awaits; at += 1) {
        let passed = 0
        const pause = (): void => {
          passed += 1
          // With checkpoints the loss comes after the one that is taken here.
          if (!checkpoint && passed === at) control.loseAt('submit', 1)
        }
        const paused = (): void => {
          if (checkpoint && passed === at) control.loseAt('submit', 1)
        }
        control.heal()
        const { result, losses, troubles } = await onProtectedDevice(workload, { pause, paused, checkpoint })
        expect({ at, losses, troubles }).toEqual({ at, losses: 1, troubles: [] })
        expect(Buffer.compare(result, reference)).toBe(0)
      }
      expect(awaits).toBeGreaterThan(4)
    },
  )
})
