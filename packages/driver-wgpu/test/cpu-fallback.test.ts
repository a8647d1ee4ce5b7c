import { basename } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { driverManifests, swiftShaderManifest } from '../src/adapters/driver-manifests.ts'
import { protectDevice, protectionOf, wgpuDriver } from '../src/index.ts'
import { expectedState, readBack, startSteps } from './support/workload.ts'

// Each look is a process, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

beforeEach((context) => {
  for (const name of ['VK_DRIVER_FILES', 'VK_ICD_FILENAMES']) vi.stubEnv(name, undefined)
  if (swiftShaderManifest() === undefined) context.skip('does not apply to this rig: no browser with SwiftShader')
  // As on a machine where none is installed; the loader goes by the names of manifests.
  vi.stubEnv(
    'VK_LOADER_DRIVERS_DISABLE',
    driverManifests()
      .map((path) => basename(path))
      .join(','),
  )
})
afterEach(() => void vi.unstubAllEnvs())

test('without any Vulkan driver, work goes on with the SwiftShader of a browser', async () => {
  const device = await protectDevice()
  expect(protectionOf(device).adapter).toMatch(/SwiftShader/)
  const steps = startSteps(device)
  for (let step = 0; step < 3; step += 1) steps.step()
  expect(await readBack(device, steps.state)).toEqual(expectedState(3))
  device.destroy()
  await device.lost
  await using driver = wgpuDriver()
  expect(await driver.runtime.targets()).toMatchObject([{ kind: 'cpu', deviceId: undefined }])
})

test('and not where that is not wanted', async () => {
  await expect(protectDevice({ cpuFallback: false })).rejects.toMatchObject({ code: 'EGPU_NO_TARGET' })
  await using driver = wgpuDriver({ cpuFallback: false })
  expect(await driver.runtime.targets()).toEqual([])
})
