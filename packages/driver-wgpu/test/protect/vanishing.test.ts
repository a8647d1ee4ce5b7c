import { afterEach, expect, test } from 'vitest'
import { protectDevice, protectionOf } from '../../src/index.ts'
import { heldDeviceCount } from '../../src/device/held-devices.ts'
import { changedDawn } from '../support/dawn.ts'
import { useRealVulkan } from '../support/real-vulkan.ts'
import { expectedState, readBack, startSteps } from '../support/workload.ts'

const control = useRealVulkan()

afterEach(async () => {
  await expect.poll(heldDeviceCount, { timeout: 10_000 }).toBe(0)
})

type Vanish = (ask: () => Promise<GPUDevice>) => Promise<GPUDevice>

/** A GPU that is gone once its adapter was handed over, as often as told: `vanish` is what `requestDevice` does then. */
function vanishing(times: () => number, vanish: Vanish): GPU {
  let gone = 0
  return changedDawn({
    device: async (ask) => {
      if (gone >= times()) return await ask()
      gone += 1
      return await vanish(ask)
    },
  })
}

const ways: Readonly<Record<string, Vanish>> = {
  'is refused': () => Promise.reject(new DOMException('the adapter is gone', 'OperationError')),
  // What the specification has for an adapter that is no longer there.
  'comes lost': async (ask) => {
    const device = await ask()
    device.destroy()
    return device
  },
}

test.each(Object.entries(ways))('a device that %s is asked for again', async (_, vanish) => {
  // To begin with, one that never came is for the caller to know; one that came lost is a loss as any other.
  let times = vanish === ways['is refused'] ? 0 : 1
  const device = await protectDevice({ gpu: vanishing(() => times, vanish), backoffMs: [0, 1] })
  const steps = startSteps(device)
  for (let step = 0; step < 3; step += 1) steps.step()
  expect(await readBack(device, steps.state)).toEqual(expectedState(3))
  times = 3
  control.loseAt('submit', 1)
  steps.step()
  expect(await readBack(device, steps.state)).toEqual(expectedState(4))
  expect(protectionOf(device).stats.recoveries).toBeGreaterThan(0)
  device.destroy()
  await device.lost
})

test('an adapter that is gone before there ever was a device is told', async () => {
  const gpu = vanishing(() => 1, ways['is refused'] as Vanish)
  await expect(protectDevice({ gpu })).rejects.toMatchObject({
    code: 'EGPU_NO_TARGET',
    message: expect.stringContaining('the adapter went away'),
  })
})
