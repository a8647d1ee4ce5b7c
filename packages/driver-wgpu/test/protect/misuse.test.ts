import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { OpenTarget } from '@egpu/core'
import { protectDevice, protectionOf, wgpuDriver } from '../../src/index.ts'
import type { WgpuDriver } from '../../src/index.ts'
import { useRealVulkan } from '../support/real-vulkan.ts'
import { TextureUsage, Usage } from './workloads/workload.ts'

const control = useRealVulkan()

let driver: WgpuDriver
let bare: OpenTarget<GPUDevice>
let guarded: GPUDevice
beforeAll(async () => {
  if ((control as unknown) === undefined) return
  driver = wgpuDriver({ describeDevice: () => ({}) })
  const [target] = await driver.runtime.targets()
  bare = await driver.runtime.open(target?.id ?? '')
  guarded = await protectDevice()
})
afterAll(async () => {
  guarded?.destroy()
  await driver?.close()
})

type Misuse = (device: GPUDevice) => unknown

const size = 64
const buffer = (device: GPUDevice, usage: number, more: object = {}): GPUBuffer =>
  device.createBuffer({ size, usage, ...more })
const texture = (device: GPUDevice, usage: number): GPUTexture =>
  device.createTexture({ size: [8, 8], format: 'rgba8unorm', usage })
const encode = (device: GPUDevice, commands: (encoder: GPUCommandEncoder) => void): void => {
  const encoder = device.createCommandEncoder()
  commands(encoder)
  device.queue.submit([encoder.finish()])
}

const misuses: Readonly<Record<string, Misuse>> = {
  'no usage': (device) => buffer(device, 0),
  'usages that exclude each other': (device) => buffer(device, Usage.MAP_READ | Usage.STORAGE),
  'a usage nobody knows': (device) => buffer(device, 0x4000),
  'a missing member': (device) => device.createBuffer({ size } as GPUBufferDescriptor),
  'an odd size mapped at creation': (device) => buffer(device, Usage.COPY_DST, { size: 5, mappedAtCreation: true }),
  'a buffer larger than the limit': (device) => buffer(device, Usage.COPY_DST, { size: 2 ** 40 }),
  'a copy from a buffer without COPY_SRC': (device) =>
    encode(device, (encoder) => {
      const to = buffer(device, Usage.COPY_DST)
      encoder.copyBufferToBuffer(buffer(device, Usage.STORAGE), 0, to, 0, size)
    }),
  'a copy to a buffer without COPY_DST': (device) =>
    encode(device, (encoder) => {
      encoder.copyBufferToBuffer(buffer(device, Usage.COPY_SRC), 0, buffer(device, Usage.STORAGE), 0, size)
    }),
  'a copy beyond the end': (device) =>
    encode(device, (encoder) => {
      encoder.copyBufferToBuffer(buffer(device, Usage.COPY_SRC), 32, buffer(device, Usage.COPY_DST), 0, size)
    }),
  'a write to a buffer without COPY_DST': (device) =>
    device.queue.writeBuffer(buffer(device, Usage.STORAGE), 0, new Uint8Array(4)),
  'a write of an odd size': (device) => device.queue.writeBuffer(buffer(device, Usage.COPY_DST), 0, new Uint8Array(3)),
  'a write beyond the end': (device) =>
    device.queue.writeBuffer(buffer(device, Usage.COPY_DST), 32, new Uint8Array(64)),
  'a write to a mapped buffer': (device) =>
    device.queue.writeBuffer(buffer(device, Usage.COPY_DST, { mappedAtCreation: true }), 0, new Uint8Array(4)),
  'a write to a texture without COPY_DST': (device) =>
    device.queue.writeTexture(
      { texture: texture(device, TextureUsage.TEXTURE_BINDING) },
      new Uint8Array(256),
      { bytesPerRow: 32 },
      [8, 8],
    ),
  'a write to a texture with too few bytes': (device) =>
    device.queue.writeTexture(
      { texture: texture(device, TextureUsage.COPY_DST) },
      new Uint8Array(16),
      { bytesPerRow: 32 },
      [8, 8],
    ),
  'a copy from a texture without COPY_SRC': (device) =>
    encode(device, (encoder) => {
      const to = device.createBuffer({ size: 2048, usage: Usage.COPY_DST })
      const from = texture(device, TextureUsage.COPY_DST)
      encoder.copyTextureToBuffer({ texture: from }, { buffer: to, bytesPerRow: 256 }, [8, 8])
    }),
  'the same commands submitted twice': (device) => {
    const commands = device.createCommandEncoder().finish()
    device.queue.submit([commands])
    device.queue.submit([commands])
  },
  'the same commands twice in one submit': (device) => {
    const commands = device.createCommandEncoder().finish()
    device.queue.submit([commands, commands])
  },
  'something else than commands submitted': (device) => device.queue.submit([{} as GPUCommandBuffer]),
  'a destroyed buffer in a submit': (device) =>
    encode(device, (encoder) => {
      const gone = buffer(device, Usage.COPY_DST)
      encoder.clearBuffer(gone)
      gone.destroy()
    }),
  'a destroyed texture in a submit': (device) =>
    encode(device, (encoder) => {
      const gone = texture(device, TextureUsage.COPY_SRC)
      encoder.copyTextureToTexture({ texture: gone }, { texture: texture(device, TextureUsage.COPY_DST) }, [8, 8])
      gone.destroy()
    }),
  'a mapped buffer in a submit': (device) =>
    encode(device, (encoder) => encoder.clearBuffer(buffer(device, Usage.COPY_DST, { mappedAtCreation: true }))),
  'a pass that was not ended': (device) =>
    encode(device, (encoder) => {
      encoder.beginComputePass()
    }),
  'a pass without a pipeline': (device) =>
    encode(device, (encoder) => {
      const pass = encoder.beginComputePass()
      pass.dispatchWorkgroups(1)
      pass.end()
    }),
  'a debug group too few': (device) => encode(device, (encoder) => encoder.popDebugGroup()),
  'a shader that does not compile': (device) => device.createShaderModule({ code: 'fn main() { nonsense }' }),
  'a bind group that does not fit its layout': (device) => {
    const layout = device.createBindGroupLayout({ entries: [{ binding: 0, visibility: 4, buffer: {} }] })
    device.createBindGroup({ layout, entries: [] })
  },
  'an object that is not one': (device) => device.createBindGroup({ layout: {} as GPUBindGroupLayout, entries: [] }),
  'a depth texture bound without TEXTURE_BINDING': (device) => {
    const depth = device.createTexture({ size: [8, 8], format: 'depth24plus', usage: TextureUsage.RENDER_ATTACHMENT })
    const layout = device.createBindGroupLayout({
      entries: [{ binding: 0, visibility: 4, texture: { sampleType: 'depth' } }],
    })
    device.createBindGroup({ layout, entries: [{ binding: 0, resource: depth.createView() }] })
  },
  'a depth texture drawn on without RENDER_ATTACHMENT': (device) =>
    encode(device, (encoder) => {
      const depth = device.createTexture({ size: [8, 8], format: 'depth32float', usage: TextureUsage.TEXTURE_BINDING })
      const view = depth.createView()
      const depthStencilAttachment = { view, depthLoadOp: 'load', depthStoreOp: 'store' } as const
      encoder.beginRenderPass({ colorAttachments: [], depthStencilAttachment }).end()
    }),
  'a multisampled texture without RENDER_ATTACHMENT': (device) =>
    device.createTexture({ size: [8, 8], format: 'rgba8unorm', sampleCount: 4, usage: TextureUsage.TEXTURE_BINDING }),
  'a copy of depth that has no defined bits': (device) =>
    encode(device, (encoder) => {
      const usage = TextureUsage.RENDER_ATTACHMENT | TextureUsage.COPY_SRC
      const depth = device.createTexture({ size: [8, 8], format: 'depth24plus', usage })
      encoder.copyTextureToBuffer(
        { texture: depth },
        { buffer: buffer(device, Usage.COPY_DST), bytesPerRow: 256 },
        [8, 8],
      )
    }),
  'a view with a usage that its texture lacks': (device) =>
    device
      .createTexture({ size: [8, 8], format: 'depth24plus', usage: TextureUsage.RENDER_ATTACHMENT })
      .createView({ usage: TextureUsage.TEXTURE_BINDING }),
  'a texture of no size': (device) => device.createTexture({ size: [0], format: 'rgba8unorm', usage: 4 }),
  'a texture format nobody knows': (device) =>
    device.createTexture({ size: [1], format: 'rgb1' as GPUTextureFormat, usage: 4 }),
  'a mapping in the wrong mode': (device) => buffer(device, Usage.MAP_READ | Usage.COPY_DST).mapAsync(2),
  'a mapping at an odd offset': (device) => buffer(device, Usage.MAP_READ | Usage.COPY_DST).mapAsync(1, 4),
  'a mapping beyond the end': (device) => buffer(device, Usage.MAP_READ | Usage.COPY_DST).mapAsync(1, 0, 128),
  'a second mapping': async (device) => {
    const twice = buffer(device, Usage.MAP_READ | Usage.COPY_DST)
    await Promise.all([twice.mapAsync(1), twice.mapAsync(1)])
  },
  'a mapping that was taken back': async (device) => {
    const pending = buffer(device, Usage.MAP_READ | Usage.COPY_DST)
    const mapping = pending.mapAsync(1)
    pending.unmap()
    await mapping
  },
  'a mapping of a destroyed buffer': async (device) => {
    const gone = buffer(device, Usage.MAP_READ | Usage.COPY_DST)
    gone.destroy()
    await gone.mapAsync(1)
  },
  'a range that is not mapped': (device) => buffer(device, Usage.MAP_READ | Usage.COPY_DST).getMappedRange(),
  'a range that was handed out before': (device) => {
    const mapped = buffer(device, Usage.COPY_DST, { mappedAtCreation: true })
    mapped.getMappedRange(0, 16)
    mapped.getMappedRange(8, 16)
  },
  'a scope too few': (device) => device.popErrorScope().then(() => device.popErrorScope()),
  'a pipeline that does not validate': (device) =>
    device.createComputePipelineAsync({
      layout: 'auto',
      compute: {
        module: device.createShaderModule({ code: '@vertex fn v() -> @builtin(position) vec4f { return vec4f(); }' }),
      },
    }),
}

/** Everything the application gets to hear of it: what is thrown, what a scope catches. */
async function heard(device: GPUDevice, misuse: Misuse): Promise<object> {
  device.pushErrorScope('validation')
  let thrown: unknown
  try {
    await misuse(device)
  } catch (error) {
    thrown = error
  }
  const caught = await device.popErrorScope().catch((error: unknown) => error as Error)
  return { thrown: describeError(thrown), caught: describeError(caught) }
}

function describeError(error: unknown): string {
  if (error === undefined || error === null) return 'nothing'
  const { message } = error as Error
  // A DOMException of Dawn has no text.
  return `${error.constructor.name} ${error instanceof DOMException ? error.name : message.split('\n')[0]}`
}

test.each(Object.entries(misuses))('refuses %s as the bare device does', async (_, misuse) => {
  const expected = await heard(bare.handle, misuse)
  expect(await heard(guarded, misuse)).toEqual(expected)
  expect(expected).not.toEqual({ thrown: 'nothing', caught: 'nothing' })
})

/** Whatever an application may have in the place of a number or a word. Dawn for Node takes some of it, and aborts of others. */
const oddities: readonly (readonly [string, unknown])[] = [
  ...Object.entries({ null: null, huge: 2 ** 53, 'more than 32 bits': 2 ** 32, 'a fraction': 1.5, NaN }),
  ...Object.entries({ 'a number below 0': -8, 'a numeric string': '16', words: 'nonsense', true: true }),
  ...Object.entries({ 'an array': [], 'an object': {}, 'a bigint': 8n, 'a function': () => {} }),
]

const oddPlaces: Readonly<Record<string, (device: GPUDevice, odd: never) => unknown>> = {
  'the size of a buffer': (device, odd) => device.createBuffer({ size: odd, usage: Usage.COPY_DST }),
  'the usage of a buffer': (device, odd) => device.createBuffer({ size, usage: odd }),
  'mappedAtCreation of a buffer': (device, odd) => buffer(device, Usage.COPY_DST, { mappedAtCreation: odd }),
  'the usage of a texture': (device, odd) => texture(device, odd),
  'the format of a texture': (device, odd) =>
    device.createTexture({ size: [8, 8], format: odd, usage: TextureUsage.COPY_DST }),
  'the samples of a texture': (device, odd) =>
    device.createTexture({ size: [8, 8], format: 'rgba8unorm', usage: 0x10, sampleCount: odd }),
  'the mode of a mapping': (device, odd) => buffer(device, Usage.MAP_READ | Usage.COPY_DST).mapAsync(odd),
  'the offset of a mapping': (device, odd) => buffer(device, Usage.MAP_READ | Usage.COPY_DST).mapAsync(1, odd),
  'the size of a mapping': (device, odd) => buffer(device, Usage.MAP_READ | Usage.COPY_DST).mapAsync(1, 0, odd),
  'the offset of a range': (device, odd) =>
    buffer(device, Usage.COPY_DST, { mappedAtCreation: true }).getMappedRange(odd),
  'the size of a range': (device, odd) =>
    buffer(device, Usage.COPY_DST, { mappedAtCreation: true }).getMappedRange(0, odd),
  'the offset of a write': (device, odd) =>
    device.queue.writeBuffer(buffer(device, Usage.COPY_DST), odd, new Uint8Array(4)),
  'a dispatch': (device, odd) => encode(device, (encoder) => encoder.beginComputePass().dispatchWorkgroups(odd)),
}

test.each(Object.entries(oddPlaces))('takes or refuses as %s what the bare device does', async (_, put) => {
  for (const [what, odd] of oddities) {
    const misuse: Misuse = (device) => put(device, odd as never)
    const expected = await heard(bare.handle, misuse)
    expect({ what, ...(await heard(guarded, misuse)) }).toEqual({ what, ...expected })
  }
})

test.each(['a buffer', 'a texture'])('tells once what is wrong with %s, and then that it is invalid', async (what) => {
  const use = async (device: GPUDevice): Promise<object> => {
    device.pushErrorScope('validation')
    const bad = what === 'a buffer' ? buffer(device, 0) : texture(device, 0)
    expect(await device.popErrorScope()).not.toBe(null)
    return await heard(device, () =>
      encode(device, (encoder) => {
        if (what === 'a buffer') encoder.clearBuffer(bad as GPUBuffer)
        else {
          const to = { buffer: device.createBuffer({ size: 2048, usage: Usage.COPY_DST }), bytesPerRow: 256 }
          encoder.copyTextureToBuffer({ texture: bad as GPUTexture }, to, [8, 8])
        }
      }),
    )
  }
  expect(await use(guarded)).toEqual(await use(bare.handle))
})

describe('objects of another device', () => {
  test('are refused as the bare device does', async () => {
    const other = await protectDevice()
    const mix = (foreign: GPUDevice) => (device: GPUDevice) =>
      encode(device, (encoder) => encoder.clearBuffer(buffer(foreign, Usage.COPY_DST)))
    const caught = ((await heard(bare.handle, mix(bare.handle))) as { caught: string }).caught
    expect(caught).toBe('nothing')
    for (const foreign of [other, bare.handle]) {
      expect(await heard(guarded, mix(foreign))).toMatchObject({ caught: expect.stringMatching(/associated with/) })
    }
    other.destroy()
    await other.lost
  })
})

test('nothing of all that was done a second time after a loss', async () => {
  const events: string[] = []
  const device = await protectDevice({ onEvent: ({ type }) => events.push(type) })
  const uncaptured: string[] = []
  device.addEventListener('uncapturederror', (event) => {
    event.preventDefault()
    uncaptured.push(event.error.message)
  })
  for (const misuse of Object.values(misuses)) await heard(device, misuse)
  const before = uncaptured.length
  control.loseAt('submit', 1)
  await device.queue.onSubmittedWorkDone()
  await new Promise((resolve) => setTimeout(resolve, 20))
  expect(events).toEqual(['lost', 'recovered'])
  expect(uncaptured.slice(before)).toEqual([])
  expect(protectionOf(device).epoch).toBe(2)
  device.destroy()
  await device.lost
})
