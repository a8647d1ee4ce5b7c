import { afterEach, describe, expect, test } from 'vitest'
import { heldDeviceCount } from '../../src/device/held-devices.ts'
import { workloads } from './workloads/all.ts'
import { useRealVulkan } from '../support/real-vulkan.ts'
import { loseAtEveryAwait, onBareDevice, onProtectedDevice } from '../support/run-workload.ts'

const control = useRealVulkan()

afterEach(() => {
  const left = heldDeviceCount() + control.liveDevices
  if (left !== 0) throw new Error(`${left} devices were left behind`)
})

describe.each(workloads)('$name', (workload) => {
  test('gives on the protected device what it gives on a bare one', async () => {
    const reference = await onBareDevice(workload)
    expect(await onProtectedDevice(workload, {})).toEqual({ result: reference, losses: 0, troubles: [] })
    expect(await onProtectedDevice(workload, { checkpoint: 'waiting' })).toEqual({
      result: reference,
      losses: 0,
      troubles: [],
    })
  })

  test.each([undefined, 'waiting'] as const)(
    'survives a loss at every await, bit-exact, checkpoints: %s',
    { timeout: 120_000 },
    async (checkpoint) => {
      const { awaits, wrong } = await loseAtEveryAwait(workload, control, checkpoint)
      expect(wrong).toEqual([])
      expect(awaits).toBeGreaterThan(4)
    },
  )
})
