import { afterEach, describe, expect, test } from 'vitest'
import { heldDeviceCount } from '../../src/device/held-devices.ts'
import { workloads } from '../protect/workloads/all.ts'
import { useRealVulkan } from '../support/real-vulkan.ts'
import { onBareDevice, onProtectedDevice } from '../support/run-workload.ts'

const control = useRealVulkan()

afterEach(() => {
  const left = heldDeviceCount() + control.liveDevices
  if (left !== 0) throw new Error(`${left} devices were left behind`)
})

describe.each(workloads)('$name', (workload) => {
  test('survives a loss at every submit, fence and map, bit-exact', async () => {
    const reference = await onBareDevice(workload)
    for (const checkpoint of [undefined, 'alongside'] as const) {
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
})
