import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { wgpuDriver } from '../src/index.ts'
import type { WgpuDriver } from '../src/index.ts'
import { heldDeviceCount } from '../src/device/held-devices.ts'
import { staying } from './support/keep-alive.ts'
import { useRealVulkan } from './support/real-vulkan.ts'
import { expectedState, readBack, startSteps } from './support/workload.ts'

const control = useRealVulkan()
const swiftshader = 'wgpu:vulkan:SwiftShader Device (Subzero)'

let driver: WgpuDriver
beforeEach(() => {
  driver = wgpuDriver({ heartbeat: { intervalMs: 10 } })
})
afterEach(async () => {
  await driver.close()
  const left = heldDeviceCount() + control.liveDevices
  if (left !== 0) throw new Error(`${left} devices were left behind`)
})

describe('adapters', () => {
  test('a software adapter is a CPU target and no device', async () => {
    expect(await driver.probe()).toEqual({ usable: true })
    expect(await driver.list()).toEqual({ devices: [], enclosures: [], findings: [] })
    const targets = await driver.runtime.targets()
    expect(targets).toMatchObject([{ id: swiftshader, kind: 'cpu', runtime: 'webgpu', removable: false }])
    expect(targets[0]?.deviceId).toBeUndefined()
    expect(targets[0]?.limits?.['maxBufferSize']).toBeGreaterThan(2 ** 28)
  })

  test('an adapter that vanishes is gone from the next look, and back after it returned', async () => {
    control.hide()
    expect(await driver.runtime.targets()).toEqual([])
    expect(await driver.probe()).toMatchObject({ usable: false, reason: expect.stringMatching(/Vulkan/) })
    control.heal()
    expect(await driver.runtime.targets()).toHaveLength(1)
  })

  test('an adapter that vanishes between look and use is EGPU_DEVICE_NOT_FOUND', async () => {
    await driver.runtime.targets()
    control.hide()
    await expect(driver.runtime.open(swiftshader)).rejects.toMatchObject({ code: 'EGPU_DEVICE_NOT_FOUND' })
    await expect(driver.runtime.open('wgpu:none')).rejects.toMatchObject({ code: 'EGPU_DEVICE_NOT_FOUND' })
  })
})

test('works through a GPU object that was handed over, as a browser has one', async () => {
  const { create } = await import('webgpu')
  await driver.close()
  driver = wgpuDriver({ gpu: create([]) })
  expect(await driver.probe()).toEqual({ usable: true })
  expect(await driver.list()).toMatchObject({ devices: [] })
  const [only, ...others] = await driver.runtime.targets()
  expect(only).toMatchObject({ kind: 'cpu', name: expect.stringMatching(/SwiftShader/) })
  expect(others).toEqual([])
  const target = await driver.runtime.open(only?.id ?? '')
  const steps = startSteps(target.handle)
  steps.step()
  expect(await readBack(target.handle, steps.state)).toEqual(expectedState(1))
})

describe('an open target', () => {
  test('is a real device that computes, with all that its target promises', async () => {
    const target = await driver.runtime.open(swiftshader)
    const steps = startSteps(target.handle)
    for (let step = 0; step < 7; step += 1) steps.step()
    expect(await readBack(target.handle, steps.state)).toEqual(expectedState(7))
    expect(target.handle.limits.maxBufferSize).toBe(target.target.limits?.['maxBufferSize'])
    await target.close()
    await target.close()
    expect(await target.lost).toMatchObject({ reason: 'destroyed' })
  })

  test('hears of the loss while it is idle', async () => {
    const target = await driver.runtime.open(swiftshader)
    control.lose()
    expect(await staying(target.lost)).toMatchObject({
      reason: 'unknown',
      message: expect.stringContaining('VK_ERROR_DEVICE_LOST'),
    })
  })

  test('hears of the loss at a submit, a fence and a map', async () => {
    for (const [point, nth] of [
      ['submit', 2],
      ['fence', 2],
      ['map', 1],
    ] as const) {
      const target = await driver.runtime.open(swiftshader)
      control.loseAt(point, nth)
      const steps = startSteps(target.handle)
      for (let step = 0; step < 3; step += 1) steps.step()
      await readBack(target.handle, steps.state).catch(() => {})
      expect((await staying(target.lost)).reason).toBe('unknown')
    }
    expect(control.liveDevices).toBe(1)
  })

  test('is opened anew after a loss with a higher epoch, many times over', async () => {
    for (let epoch = 1; epoch <= 25; epoch += 1) {
      const target = await driver.runtime.open(swiftshader)
      expect(target.epoch).toBe(epoch)
      const steps = startSteps(target.handle)
      for (let step = 0; step < 3; step += 1) steps.step()
      expect(await readBack(target.handle, steps.state)).toEqual(expectedState(3))
      control.loseAt('submit', 2)
      steps.step()
      steps.step()
      await staying(target.lost)
    }
  })

  test('is given back when the caller gave up waiting for it', async () => {
    await driver.runtime.targets()
    const caller = new AbortController()
    const opening = driver.runtime.open(swiftshader, { signal: caller.signal })
    caller.abort(new Error('changed my mind'))
    await expect(opening).rejects.toThrow('changed my mind')
    await expect.poll(() => control.liveDevices).toBe(0)
    await expect.poll(() => heldDeviceCount()).toBe(0)
  })

  test('takes a descriptor of the caller', async () => {
    await driver.close()
    driver = wgpuDriver({ describeDevice: () => ({ label: 'mine' }) })
    const target = await driver.runtime.open(swiftshader)
    expect(target.handle.label).toBe('mine')
    expect(target.handle.limits.maxBufferSize).toBe(2 ** 28)
  })
})

test('a closed driver refuses with EGPU_CLOSED', async () => {
  await driver.close()
  await expect(driver.list()).rejects.toMatchObject({ code: 'EGPU_CLOSED' })
  await expect(driver.runtime.open(swiftshader)).rejects.toMatchObject({ code: 'EGPU_CLOSED' })
  expect(await driver.probe()).toMatchObject({ usable: false })
})

test('an open target does not keep Node alive', () => {
  const script = `
    const { wgpuDriver } = await import('@egpu/driver-wgpu')
    const driver = wgpuDriver({ heartbeat: { intervalMs: 5 } })
    const target = await driver.runtime.open(${JSON.stringify(swiftshader)})
    target.lost.then(() => console.log('lost'))
    setTimeout(() => console.log('last'), 50)`
  const args = ['--conditions=@egpu/source', '--import=tsx', '--input-type=module', '-e', script]
  const cwd = fileURLToPath(new URL('..', import.meta.url))
  const { stdout, status, stderr } = spawnSync(process.execPath, args, { cwd, encoding: 'utf8', timeout: 15_000 })
  expect({ stdout, status, stderr }).toEqual({ stdout: 'last\n', status: 0, stderr: '' })
  // It ended without closing anything.
  control.forgetDevices()
})
