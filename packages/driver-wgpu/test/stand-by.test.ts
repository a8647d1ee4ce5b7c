import { afterEach, beforeEach, expect, test } from 'vitest'
import { wgpuDriver } from '../src/index.ts'
import type { WgpuDriver } from '../src/index.ts'
import { staying } from './support/keep-alive.ts'
import { useRealVulkan } from './support/real-vulkan.ts'
import { expectedState, readBack, startSteps } from './support/workload.ts'

const control = useRealVulkan()
const swiftshader = 'wgpu:vulkan:SwiftShader Device (Subzero)'

let driver: WgpuDriver
beforeEach(() => {
  driver = wgpuDriver({ heartbeat: { intervalMs: 10 } })
})
afterEach(() => driver.close())

test('a device that stands by is handed out once, as one of the present epoch', async () => {
  const first = await driver.runtime.open(swiftshader)
  await driver.runtime.standBy(swiftshader)
  await driver.runtime.standBy(swiftshader)
  expect(control.liveDevices).toBe(2)
  control.loseAt('submit', 1)
  startSteps(first.handle).step()
  await staying(first.lost)
  control.hide()
  const second = await driver.runtime.open(swiftshader)
  expect(second.epoch).toBe(2)
  const steps = startSteps(second.handle)
  steps.step()
  expect(await readBack(second.handle, steps.state)).toEqual(expectedState(1))
  await expect(driver.runtime.open(swiftshader)).rejects.toMatchObject({ code: 'EGPU_DEVICE_NOT_FOUND' })
})

test('a device that was lost while it stood by is not handed out', async () => {
  await driver.runtime.standBy(swiftshader)
  control.lose()
  await expect.poll(() => control.losses).toBeGreaterThan(0)
  await expect.poll(() => control.told('submit') + control.told('fence')).toBeGreaterThan(0)
  await new Promise((resolve) => setTimeout(resolve, 20))
  control.heal()
  const open = await driver.runtime.open(swiftshader)
  const steps = startSteps(open.handle)
  steps.step()
  expect(await readBack(open.handle, steps.state)).toEqual(expectedState(1))
})

test('closes with the driver', async () => {
  await driver.runtime.standBy(swiftshader)
  await driver.close()
  await expect.poll(() => control.liveDevices).toBe(0)
  await expect(driver.runtime.standBy(swiftshader)).rejects.toMatchObject({ code: 'EGPU_CLOSED' })
})
