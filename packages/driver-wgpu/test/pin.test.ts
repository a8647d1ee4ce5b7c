import { existsSync, rmSync } from 'node:fs'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { EGpuDevice } from '@egpu/core'
import { wgpuDriver } from '../src/index.ts'
import type { WgpuDriver } from '../src/index.ts'
import { deviceOf } from '../src/adapters/vulkan-devices.ts'
import type { VulkanDevice } from '../src/adapters/vulkan-devices.ts'
import { mesaLayer, prepareTwins } from './support/twins.ts'

const [first, second] = ['0000:03:00.0', '0000:04:00.0'] as const
const prepared = prepareTwins([first, second])
if (typeof prepared !== 'string') Object.assign(process.env, prepared)
const name = 'Twin GPU'

let driver: WgpuDriver
beforeAll(() => {
  driver = wgpuDriver()
})
afterAll(async () => {
  await driver.close()
  if (typeof prepared !== 'string') rmSync(prepared['VK_LAYER_PATH'] as string, { recursive: true })
})
beforeEach((context) => {
  if (typeof prepared === 'string') context.skip(prepared)
})

test('identical GPUs are told apart by PCI address and UUID', async () => {
  const { devices } = await driver.list()
  expect(devices).toMatchObject([
    { key: `vulkan:${name}`, stage: 'ready', identity: { pciAddress: first, vendorId: 0x10de, deviceId: 0x2335 } },
    { key: `vulkan:${name}#2`, stage: 'present', identity: { pciAddress: second } },
  ])
  expect(new Set(devices.map(({ identity }) => identity.uuid)).size).toBe(2)
  expect(devices[0]?.gpu).toMatchObject({ name, vendor: 'nvidia', memoryBytes: 2 ** 31 })
})

test('which of them a target is stays open, unless the process was pinned', async () => {
  const { devices } = await driver.list()
  const [, wanted] = devices
  const known = devices.map(({ key, identity, gpu }) => ({ id: key, identity, gpu }) as EGpuDevice)
  expect(await driver.runtime.targets()).toMatchObject([{ id: `wgpu:vulkan:${name}`, deviceId: undefined }])
  expect(await driver.match(known)).toMatchObject([{ certainty: 'ambiguous', confidence: 0.5 }])
  vi.stubEnv('EGPU_WGPU_PINNED', wanted?.identity.uuid ?? '')
  await using inPinned = wgpuDriver()
  expect(await inPinned.match(known)).toMatchObject([{ certainty: 'certain', device: { id: wanted?.key } }])
  const [target] = await inPinned.runtime.targets()
  const { devices: seen } = await inPinned.list()
  expect(seen.find(({ key }) => key === target?.deviceId)?.identity.uuid).toBe(wanted?.identity.uuid)
  vi.unstubAllEnvs()
})

describe('a pin', () => {
  test('opens the GPU that is opened anyway with nothing set', async () => {
    const pin = await driver.pin({ pciAddress: first })
    expect(pin).toMatchObject({
      environment: { EGPU_WGPU_PINNED: expect.any(String) },
      launcher: [],
      device: { pciAddress: first },
      targetId: `wgpu:vulkan:${name}`,
    })
  })

  test(
    'opens the other of two identical ones, whatever the selector is called',
    { timeout: 180_000 },
    async (context) => {
      if (!existsSync(mesaLayer)) context.skip('does not apply to this rig: no Mesa device-select layer')
      const { devices } = await driver.list()
      const pin = await driver.pin(devices[1]?.identity ?? {})
      expect(pin.device.pciAddress).toBe(second)
      expect(Object.keys(pin.environment).length).toBeGreaterThan(1)
    },
  )

  test('is refused with all that was tried when nothing opens the GPU', { timeout: 180_000 }, async () => {
    process.env['NODEVICE_SELECT'] = '1'
    const pinning = driver.pin({ pciAddress: second })
    await expect(pinning).rejects.toMatchObject({
      code: 'EGPU_TARGET_INCOMPATIBLE',
      message: expect.stringMatching(
        /tried nothing: it opened the one at 0000:03:00\.0; MESA_VK_DEVICE_SELECT=.*unshare/,
      ),
    })
    delete process.env['NODEVICE_SELECT']
  })

  test('of a GPU that is not there, or of one of two that fit, is EGPU_DEVICE_NOT_FOUND', async () => {
    const absent = driver.pin({ pciAddress: '0000:05:00.0' })
    await expect(absent).rejects.toMatchObject({
      code: 'EGPU_DEVICE_NOT_FOUND',
      message: expect.stringMatching(/no such GPU.*0000:04:00\.0/),
    })
    const both = driver.pin({ adapterName: name })
    await expect(both).rejects.toMatchObject({
      code: 'EGPU_DEVICE_NOT_FOUND',
      message: expect.stringMatching(/several GPUs fit/),
    })
  })

  test('ends with the abort reason', async () => {
    const caller = new AbortController()
    const pinning = driver.pin({ pciAddress: second }, caller)
    caller.abort(new Error('changed my mind'))
    await expect(pinning).rejects.toThrow('changed my mind')
  })
})

describe('the witness', () => {
  const device = (uuid: string, usedBytes?: number, budgetBytes?: number): VulkanDevice => {
    return { name, vendorId: 1, deviceId: 1, type: 'discrete', uuid, memoryBytes: 1e9, usedBytes, budgetBytes }
  }

  test('believes growth of one, not of none or of several', () => {
    const before = [device('a', 0, 900), device('b', 0, 900)]
    expect(deviceOf({ before, after: [device('a', 100, 900), device('b', 0, 900)] }, 100)?.uuid).toBe('a')
    expect(deviceOf({ before, after: [device('a', 0, 900), device('b', 0, 790)] }, 100)?.uuid).toBe('b')
    expect(deviceOf({ before, after: [device('a', 0, 900), device('b', 10, 880)] }, 100)).toBeUndefined()
    expect(deviceOf({ before, after: [device('a', 99, 800), device('b', 99, 800)] }, 100)).toBeUndefined()
  })

  test('needs no memory figures where there is one device, and cannot do without where there are more', () => {
    expect(deviceOf({ before: [device('a')], after: [device('a')] }, 100)?.uuid).toBe('a')
    const two = [device('a'), device('b')]
    expect(deviceOf({ before: two, after: two }, 100)).toBeUndefined()
    expect(deviceOf({ before: [], after: [] }, 100)).toBeUndefined()
  })
})
