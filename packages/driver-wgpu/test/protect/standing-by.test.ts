import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, test } from 'vitest'
import { protectDevice, protectionOf } from '../../src/index.ts'
import type { ProtectionEvent, ProtectOptions } from '../../src/index.ts'
import { heldDeviceCount } from '../../src/device/held-devices.ts'
import { changedDawn, named } from '../support/dawn.ts'
import { staying } from '../support/keep-alive.ts'
import { useRealVulkan } from '../support/real-vulkan.ts'
import { expectedState, readBack, startSteps } from '../support/workload.ts'
import { Usage } from './workloads/workload.ts'

const control = useRealVulkan()
const patient = { timeout: 30_000 }

let device: GPUDevice
let events: ProtectionEvent[] = []
const count = (type: ProtectionEvent['type']): number => events.filter((event) => event.type === type).length

async function open(options: ProtectOptions = {}): Promise<GPUDevice> {
  events = []
  device = await protectDevice({
    checkpoint: { intervalMs: Number.POSITIVE_INFINITY },
    standBy: true,
    ...options,
    onEvent: (event) => events.push(event),
  })
  return device
}

afterEach(async () => {
  device.destroy()
  await staying(device.lost)
  await expect.poll(heldDeviceCount, patient).toBe(0)
  expect(control.liveDevices).toBe(0)
})

interface PipelineCounts {
  /** Made on the spot, while the application waits. */
  sync: number
  /** Made in the background, and ready. */
  ready: number
}

/** How many pipelines were made on each device that was opened. */
function countingPipelines(): { readonly gpu: GPU; readonly made: readonly PipelineCounts[] } {
  const made: PipelineCounts[] = []
  const counted = (real: GPUDevice): GPUDevice => {
    const counts = { sync: 0, ready: 0 }
    made.push(counts)
    const now = real.createComputePipeline.bind(real)
    const later = real.createComputePipelineAsync.bind(real)
    return Object.defineProperties(real, {
      createComputePipeline: {
        value: (descriptor: GPUComputePipelineDescriptor) => {
          counts.sync += 1
          return now(descriptor)
        },
      },
      createComputePipelineAsync: {
        value: async (descriptor: GPUComputePipelineDescriptor) => {
          const pipeline = await later(descriptor)
          counts.ready += 1
          return pipeline
        },
      },
    })
  }
  return { gpu: changedDawn({ device: async (ask) => counted(await ask()) }), made }
}

test('takes over where no device could be had, and is kept again once it can', async () => {
  await open({ backoffMs: [0, 100_000] })
  const steps = startSteps(device)
  for (let step = 0; step < 3; step += 1) steps.step()
  await expect.poll(() => count('standing-by'), patient).toBe(1)
  expect(control.liveDevices).toBe(2)
  control.loseAt('submit', 1, { hide: true })
  for (let step = 0; step < 2; step += 1) steps.step()
  expect(await readBack(device, steps.state)).toEqual(expectedState(5))
  expect(protectionOf(device)).toMatchObject({ epoch: 2, stats: { losses: 1, recoveries: 1 } })
  expect(count('waiting')).toBe(0)
})

test('has the pipelines already, also those that were made after it was opened', async () => {
  const { gpu, made } = countingPipelines()
  await open({ gpu })
  const early = startSteps(device)
  await expect.poll(() => count('standing-by'), patient).toBe(1)
  const late = startSteps(device)
  for (const steps of [early, late]) steps.step()
  await expect.poll(() => made[1]?.ready, patient).toBe(2)
  control.loseAt('submit', 1)
  early.step()
  expect(await readBack(device, early.state)).toEqual(expectedState(2))
  expect(await readBack(device, late.state)).toEqual(expectedState(1))
  expect(made[1]).toEqual({ sync: 0, ready: 2 })
  await expect.poll(() => count('standing-by'), patient).toBe(2)
  for (const steps of [early, late]) steps.step()
  control.loseAt('submit', 1)
  expect(await readBack(device, early.state)).toEqual(expectedState(3))
  expect(await readBack(device, late.state)).toEqual(expectedState(2))
  expect(made[2]).toEqual({ sync: 0, ready: 2 })
})

test('is on another GPU where there is one, and then on the first again', async () => {
  const gpu = changedDawn({
    adapter: async (ask, { powerPreference, forceFallbackAdapter }) => {
      const adapter = forceFallbackAdapter === true ? null : await ask()
      const name = powerPreference === 'high-performance' ? 'External GPU' : 'Internal GPU'
      return adapter === null ? null : named(adapter, name)
    },
  })
  await open({ gpu })
  const steps = startSteps(device)
  const order = ['External GPU', 'Internal GPU', 'External GPU', 'Internal GPU']
  for (const [nth, adapter] of order.slice(0, 3).entries()) {
    await expect.poll(() => count('standing-by'), patient).toBe(nth + 1)
    expect(events.findLast(({ type }) => type === 'standing-by')).toMatchObject({ adapter: order[nth + 1] })
    expect(protectionOf(device).adapter).toBe(adapter)
    control.loseAt('submit', 1)
    steps.step()
    expect(await readBack(device, steps.state)).toEqual(expectedState(nth + 1))
  }
  // Whoever moves goes to the best there is, and the other one stands by.
  await expect.poll(() => count('standing-by'), patient).toBe(4)
  await protectionOf(device).move()
  expect(protectionOf(device).adapter).toBe('External GPU')
  await expect.poll(() => count('standing-by'), patient).toBe(5)
  expect(events.at(-1)).toMatchObject({ adapter: 'Internal GPU' })
  expect(await readBack(device, steps.state)).toEqual(expectedState(3))
})

test('is not handed work when it was lost, too', async () => {
  await open({ backoffMs: [0, 10] })
  const steps = startSteps(device)
  steps.step()
  await device.queue.onSubmittedWorkDone()
  await expect.poll(() => count('standing-by'), patient).toBe(1)
  control.lose({ hide: true })
  steps.step()
  await expect.poll(() => count('waiting'), patient).toBeGreaterThan(0)
  control.heal()
  expect(await readBack(device, steps.state)).toEqual(expectedState(2))
  await expect.poll(() => count('standing-by'), patient).toBe(2)
})

test('what the device refused is refused again in its turn, where the application still listens', async () => {
  await open()
  await expect.poll(() => count('standing-by'), patient).toBe(1)
  device.pushErrorScope('validation')
  const module = device.createShaderModule({ code: 'fn main() { nonsense }' })
  device.createComputePipeline({ layout: 'auto', compute: { module } })
  await new Promise((resolve) => setTimeout(resolve, 100))
  control.loseAt('submit', 1)
  await device.queue.onSubmittedWorkDone()
  expect(protectionOf(device).epoch).toBe(2)
  expect((await device.popErrorScope())?.message).toMatch(/nonsense/)
})

test('ends with a device that is destroyed while it is being opened', async () => {
  await open()
  device.createBuffer({ size: 4, usage: Usage.COPY_DST })
  device.destroy()
  await staying(device.lost)
  await expect.poll(() => control.liveDevices, patient).toBe(0)
  expect(count('standing-by')).toBe(0)
})

test('does not keep Node alive', () => {
  const script = `
    const { protectDevice } = await import('@egpu/driver-wgpu')
    const waiting = setInterval(() => {}, 1000)
    await protectDevice({
      standBy: true,
      heartbeat: { intervalMs: 5 },
      onEvent: ({ type }) => {
        console.log(type)
        clearInterval(waiting)
      },
    })`
  const args = ['--conditions=@egpu/source', '--import=tsx', '--input-type=module', '-e', script]
  const cwd = fileURLToPath(new URL('../..', import.meta.url))
  const { stdout, status, stderr } = spawnSync(process.execPath, args, { cwd, encoding: 'utf8', timeout: 60_000 })
  expect({ stdout, status, stderr }).toEqual({ stdout: 'standing-by\n', status: 0, stderr: '' })
  // It ended without closing anything.
  control.forgetDevices()
})
