import { afterEach, beforeEach, expect, test } from 'vitest'
import { wgpuDriver } from '../src/index.ts'
import type { WgpuDriver } from '../src/index.ts'
import { staying } from './support/keep-alive.ts'
import { useRealVulkan } from './support/real-vulkan.ts'
import { expectedState, readBack, startSteps } from './support/workload.ts'
import type { Steps } from './support/workload.ts'

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
  await expect.poll(() => control.losses, { timeout: 10_000 }).toBeGreaterThan(0)
  await expect.poll(() => control.told('submit') + control.told('fence'), { timeout: 10_000 }).toBeGreaterThan(0)
  await new Promise((resolve) => setTimeout(resolve, 20))
  control.heal()
  const open = await driver.runtime.open(swiftshader)
  const steps = startSteps(open.handle)
  steps.step()
  expect(await readBack(open.handle, steps.state)).toEqual(expectedState(1))
})

test('what was prepared on it is there when it is handed out', async () => {
  const ready = new WeakMap<GPUDevice, Steps>()
  await driver.runtime.standBy(swiftshader, {
    prepare: async ({ handle }) => {
      const steps = startSteps(handle)
      steps.step()
      await handle.queue.onSubmittedWorkDone()
      ready.set(handle, steps)
    },
  })
  const { handle } = await driver.runtime.open(swiftshader)
  const steps = ready.get(handle) as Steps
  steps.step()
  expect(await readBack(handle, steps.state)).toEqual(expectedState(2))
})

test('is closed when preparing it fails, and the failure is told', async () => {
  const failure = new Error('no such shader')
  const prepare = (): Promise<void> => Promise.reject(failure)
  await expect(driver.runtime.standBy(swiftshader, { prepare })).rejects.toBe(failure)
  await expect.poll(() => control.liveDevices, { timeout: 10_000 }).toBe(0)
  await driver.runtime.standBy(swiftshader)
  expect(control.liveDevices).toBe(1)
})

test('whoever opens it while it is being prepared keeps it, whatever becomes of that', async () => {
  let fail: (error: Error) => void = () => {}
  let begun = (): void => {}
  const preparing = new Promise<void>((resolve) => (begun = resolve))
  const standing = driver.runtime.standBy(swiftshader, {
    prepare: () => {
      begun()
      return new Promise<void>((_, reject) => (fail = reject))
    },
  })
  await preparing
  const open = await driver.runtime.open(swiftshader)
  fail(new Error('too late'))
  await expect(standing).rejects.toThrow('too late')
  const steps = startSteps(open.handle)
  steps.step()
  expect(await readBack(open.handle, steps.state)).toEqual(expectedState(1))
})

test.each(['the signal', 'the driver'])('preparing it ends with %s', async (what) => {
  const aborting = new AbortController()
  const standing = driver.runtime.standBy(swiftshader, {
    signal: aborting.signal,
    prepare: async () => {
      if (what === 'the signal') aborting.abort(new Error('enough'))
      else void driver.close()
      await new Promise(() => {})
    },
  })
  await expect(standing).rejects.toThrow(what === 'the signal' ? 'enough' : 'the wgpu driver was closed')
  await expect.poll(() => control.liveDevices, { timeout: 10_000 }).toBe(0)
})

test('closes with the driver', async () => {
  await driver.runtime.standBy(swiftshader)
  await driver.close()
  await expect.poll(() => control.liveDevices, { timeout: 10_000 }).toBe(0)
  await expect(driver.runtime.standBy(swiftshader)).rejects.toMatchObject({ code: 'EGPU_CLOSED' })
})
