import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { protectDevice, protectionOf, wgpuDriver } from '../../src/index.ts'
import type { WgpuDriver } from '../../src/index.ts'
import { useRealVulkan } from '../support/real-vulkan.ts'
import { expectedState, readBack, startSteps } from '../support/workload.ts'
import { Usage } from './workloads/workload.ts'

const control = useRealVulkan()

describe('after its end', () => {
  let driver: WgpuDriver
  const devices: Record<'bare' | 'guarded', GPUDevice[]> = { bare: [], guarded: [] }
  beforeAll(async () => {
    if ((control as unknown) === undefined) return
    driver = wgpuDriver({ describeDevice: () => ({}) })
    const [target] = await driver.runtime.targets()
    const { handle } = await driver.runtime.open(target?.id ?? '')
    for (const device of [handle, await protectDevice()]) {
      prepared.set(device, {
        module: device.createShaderModule({ code: '@compute @workgroup_size(1) fn main() {}' }),
        reading: device.createBuffer({ size: 16, usage: Usage.MAP_READ | Usage.COPY_DST }),
        writing: device.createBuffer({ size: 16, usage: Usage.MAP_WRITE | Usage.COPY_SRC }),
      })
      device.destroy()
      await device.lost
      devices[device === handle ? 'bare' : 'guarded'].push(device)
    }
  })
  afterAll(() => driver?.close())

  interface Prepared {
    readonly module: GPUShaderModule
    readonly reading: GPUBuffer
    readonly writing: GPUBuffer
  }
  const prepared = new Map<GPUDevice, Prepared>()

  const calls: Readonly<Record<string, (device: GPUDevice, before: Prepared) => unknown>> = {
    'a popped error scope': (device) => {
      device.pushErrorScope('validation')
      return device.popErrorScope()
    },
    'a pipeline that was asked for': (device, { module }) =>
      device.createComputePipelineAsync({ layout: 'auto', compute: { module } }),
    'what a shader was compiled to': (_, { module }) => module.getCompilationInfo(),
    'a mapping to read': (_, { reading }) => reading.mapAsync(1),
    'a mapping to write': (_, { writing }) => writing.mapAsync(2),
    'a mapping of a new buffer': (device) =>
      device.createBuffer({ size: 16, usage: Usage.MAP_READ | Usage.COPY_DST }).mapAsync(1),
    'a buffer mapped at creation': (device) =>
      device.createBuffer({ size: 16, usage: Usage.COPY_SRC, mappedAtCreation: true }).getMappedRange().byteLength,
    'a write': (device) =>
      device.queue.writeBuffer(device.createBuffer({ size: 16, usage: Usage.COPY_DST }), 0, new Uint8Array(16)),
    work: (device) => {
      device.queue.submit([device.createCommandEncoder().finish()])
      return device.queue.onSubmittedWorkDone()
    },
    'a second end': (device) => {
      device.destroy()
      return device.lost.then(({ reason }) => reason)
    },
  }

  async function outcome(device: GPUDevice | undefined, call: (typeof calls)[string]): Promise<string> {
    if (device === undefined) return 'no device'
    try {
      const value = await call(device, prepared.get(device) as Prepared)
      return typeof value === 'object' && value !== null ? value.constructor.name : String(value)
    } catch (error) {
      return `${(error as Error).constructor.name} ${(error as Error).name}`
    }
  }

  test.each(Object.entries(calls))('%s comes out as on the bare device', async (_, call) => {
    expect(await outcome(devices.guarded[0], call)).toBe(await outcome(devices.bare[0], call))
  })
})

test('a listener that throws does not keep the device from coming back, and its error is not lost', async () => {
  const thrown: unknown[] = []
  const later = vi.spyOn(globalThis, 'queueMicrotask').mockImplementation((task) => {
    try {
      task()
    } catch (error) {
      thrown.push(error)
    }
  })
  const device = await protectDevice({
    onEvent: ({ type }) => {
      throw new Error(`the listener stumbled over ${type}`)
    },
  })
  const steps = startSteps(device)
  steps.step()
  control.loseAt('submit', 1)
  expect(await readBack(device, steps.state)).toEqual(expectedState(1))
  expect(protectionOf(device).stats.recoveries).toBe(1)
  expect(thrown.map(String)).toContain('Error: the listener stumbled over lost')
  later.mockRestore()
  device.destroy()
  await device.lost
})

test('a device that is destroyed at the moment of its loss was destroyed', async () => {
  const device = await protectDevice()
  startSteps(device).step()
  await device.queue.onSubmittedWorkDone()
  control.loseAt('submit', 1)
  device.queue.submit([])
  device.destroy()
  expect((await device.lost).reason).toBe('destroyed')
})

test('what is written in the middle of a careful replay comes after what was done before it', async () => {
  const device = await protectDevice({
    backoffMs: [0, 0, 0],
    checkpoint: { intervalMs: Number.POSITIVE_INFINITY },
    onEvent: ({ type, ...event }) => {
      // Two devices die of the replay: the third is asked after each submit whether it still lives.
      if (type === 'lost' && 'epoch' in event && event.epoch < 3) control.loseAt('submit', 1)
    },
  })
  const usage = Usage.COPY_SRC | Usage.COPY_DST
  const [source, copy] = [0, 1].map(() => device.createBuffer({ size: 16, usage })) as [GPUBuffer, GPUBuffer]
  const texture = device.createTexture({ size: [4], format: 'rgba8unorm', usage: 0x3 })
  const image = device.createBuffer({ size: 256, usage })
  const write = (value: number): void => {
    device.queue.writeBuffer(source, 0, Uint32Array.of(value, value, value, value))
    device.queue.writeTexture(
      { texture },
      Uint8Array.from({ length: 16 }, () => value),
      {},
      [4],
    )
  }
  write(1)
  for (let nth = 0; nth < 8; nth += 1) {
    const encoder = device.createCommandEncoder()
    encoder.copyBufferToBuffer(source, 0, copy, 0, 16)
    encoder.copyTextureToBuffer({ texture }, { buffer: image }, [4])
    device.queue.submit([encoder.finish()])
  }
  await device.queue.onSubmittedWorkDone()
  control.loseAt('submit', 1)
  device.queue.submit([])
  const done = device.queue.onSubmittedWorkDone().then(() => false)
  const turn = (): Promise<boolean> => new Promise((resolve) => setImmediate(() => resolve(true)))
  for (let nth = 0; await Promise.race([done, turn()]); nth += 1) {
    if (protectionOf(device).epoch === 4 && nth < 10_000) write(2)
  }
  expect(protectionOf(device).epoch).toBe(4)
  expect(new Uint8Array((await readBack(device, copy)).buffer)).toEqual(
    new Uint8Array(Uint32Array.of(1, 1, 1, 1).buffer),
  )
  expect(new Uint8Array((await readBack(device, image)).buffer).subarray(0, 16)).toEqual(new Uint8Array(16).fill(1))
  expect(await readBack(device, source)).toEqual(Uint32Array.of(2, 2, 2, 2))
  device.destroy()
  await device.lost
})
