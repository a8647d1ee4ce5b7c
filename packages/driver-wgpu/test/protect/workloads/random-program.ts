import { Dice } from './dice.ts'
import { join, read, TextureUsage, Usage } from './workload.ts'
import type { Pause, Workload } from './workload.ts'

/** No two invocations touch the same word or texel: what a race gives differs from run to run, on any device. */
const code = /* wgsl */ `
@group(0) @binding(0) var<storage, read_write> words: array<u32>;
@group(0) @binding(1) var<uniform> salt: vec4u;
@compute @workgroup_size(16) fn stir(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= arrayLength(&words)) { return; }
  words[id.x] = words[id.x] * 1664525u + salt.x + id.x;
}
@group(0) @binding(2) var canvas: texture_storage_2d<rgba8unorm, write>;
@compute @workgroup_size(4, 4) fn paint(@builtin(global_invocation_id) id: vec3u) {
  if ((id.x + id.y) % 3u == salt.x % 3u) { textureStore(canvas, id.xy, unpack4x8unorm(words[id.y] ^ salt.x)); }
}
@group(0) @binding(3) var picture: texture_2d<f32>;
@compute @workgroup_size(4, 4) fn look(@builtin(global_invocation_id) id: vec3u) {
  if (id.x == id.y) { words[id.y] += pack4x8unorm(textureLoad(picture, id.xy, 0)); }
}
@vertex fn corners(@builtin(vertex_index) n: u32, @builtin(instance_index) turn: u32) -> @builtin(position) vec4f {
  let angle = f32(n) * 2.1 + f32(turn) * 0.37;
  return vec4f(cos(angle), sin(angle), fract(f32(turn) * 0.13 + f32(n) * 0.07), 1);
}
@fragment fn shade(@builtin(position) at: vec4f) -> @location(0) vec4f {
  return vec4f(fract(at.x * 0.11), fract(at.y * 0.07), at.z, 0.5);
}`

const size = 16
const bytesPerRow = 256
const imageBytes = bytesPerRow * size

/** Everything a program has made so far. */
class World {
  readonly dice: Dice
  readonly buffers: GPUBuffer[] = []
  readonly results: Uint8Array[] = []
  readonly device: GPUDevice
  readonly pause: Pause
  readonly #textures = new Map<string, GPUTexture>()
  readonly #pipelines = new Map<string, GPUComputePipeline | GPURenderPipeline>()
  readonly #module: GPUShaderModule

  constructor(device: GPUDevice, pause: Pause, seed: number) {
    this.device = device
    this.pause = pause
    this.dice = new Dice(seed)
    this.#module = device.createShaderModule({ code })
    for (let n = 0; n < 3; n += 1) this.addBuffer()
  }

  addBuffer(): void {
    const { dice, device } = this
    const usage = Usage.STORAGE | Usage.COPY_SRC | Usage.COPY_DST
    const mappedAtCreation = dice.isOdd()
    const buffer = device.createBuffer({ size: imageBytes, usage, mappedAtCreation })
    if (mappedAtCreation) {
      new Uint8Array(buffer.getMappedRange(64, 128)).set(dice.bytes(128))
      buffer.unmap()
    }
    this.buffers.push(buffer)
  }

  get buffer(): GPUBuffer {
    return this.dice.pick(this.buffers)
  }

  /** One of a kind for each format, number of samples and place. */
  texture(format: GPUTextureFormat, samples: number, nth: number = 0): GPUTexture {
    const isPlain = format === 'rgba8unorm' && samples === 1
    const usage = isPlain ? 0x1f : TextureUsage.RENDER_ATTACHMENT
    return getOrMake(this.#textures, `${format} ${samples} ${nth}`, () =>
      this.device.createTexture({ size: [size, size], format, sampleCount: samples, usage }),
    )
  }

  get picture(): GPUTexture {
    return this.texture('rgba8unorm', 1, this.dice.below(2))
  }

  /** Takes its textures away: the next ones by these names are others. */
  forgetTexture(): void {
    const name = this.dice.pick([...this.#textures.keys(), ''])
    this.#textures.get(name)?.destroy()
    this.#textures.delete(name)
  }

  get salt(): GPUBuffer {
    const salt = this.device.createBuffer({ size: 16, usage: Usage.UNIFORM | Usage.COPY_DST })
    this.device.queue.writeBuffer(salt, 0, this.dice.bytes(16))
    return salt
  }

  compute(entryPoint: string): GPUComputePipeline {
    return getOrMake(this.#pipelines, entryPoint, () =>
      this.device.createComputePipeline({ layout: 'auto', compute: { module: this.#module, entryPoint } }),
    ) as GPUComputePipeline
  }

  drawing(depth: GPUTextureFormat, count: number): GPURenderPipeline {
    return getOrMake(this.#pipelines, `${depth} ${count}`, () =>
      this.device.createRenderPipeline({
        layout: 'auto',
        vertex: { module: this.#module },
        fragment: {
          module: this.#module,
          targets: [
            {
              format: 'rgba8unorm',
              blend: { color: { srcFactor: 'src-alpha', dstFactor: 'one-minus-src-alpha' }, alpha: {} },
            },
          ],
        },
        multisample: { count },
        depthStencil: {
          format: depth,
          depthWriteEnabled: true,
          depthCompare: 'less-equal',
          ...(depth.endsWith('stencil8')
            ? { stencilFront: { compare: 'not-equal', passOp: 'increment-wrap' }, stencilBack: { passOp: 'invert' } }
            : {}),
        },
      }),
    ) as GPURenderPipeline
  }
}

type Encode = (world: World, encoder: GPUCommandEncoder) => void

const encodings: readonly Encode[] = [
  function copy({ buffers, dice }, encoder) {
    const [from, to] = [dice.pick(buffers), dice.pick(buffers)]
    if (from !== to) encoder.copyBufferToBuffer(from, 4 * dice.below(64), to, 4 * dice.below(64), 4 * dice.below(128))
  },
  function clear({ buffer, dice }, encoder) {
    encoder.clearBuffer(buffer, 4 * dice.below(100), 4 * dice.below(100))
  },
  function toTexture({ buffer, picture, dice }, encoder) {
    const y = dice.below(size)
    encoder.copyBufferToTexture({ buffer, bytesPerRow, offset: 4 * y }, { texture: picture, origin: [0, y] }, [size, 1])
  },
  function fromTexture({ buffer, picture }, encoder) {
    encoder.copyTextureToBuffer({ texture: picture }, { buffer, bytesPerRow }, [size, size])
  },
  function betweenTextures(world, encoder) {
    const [texture, other] = [world.texture('rgba8unorm', 1, 0), world.texture('rgba8unorm', 1, 1)]
    const origin = [world.dice.below(8), world.dice.below(8)]
    encoder.copyTextureToTexture({ texture, origin }, { texture: other }, [8, 8])
  },
  function compute(world, encoder) {
    const entry = world.dice.pick(['stir', 'stir', 'paint', 'look'])
    const pipeline = world.compute(entry)
    const entries: GPUBindGroupEntry[] = [{ binding: 0, resource: { buffer: world.buffer } }]
    if (entry !== 'look') entries.push({ binding: 1, resource: { buffer: world.salt } })
    if (entry === 'paint') entries.push({ binding: 2, resource: world.picture.createView() })
    if (entry === 'look') entries.push({ binding: 3, resource: world.picture.createView() })
    const pass = encoder.beginComputePass()
    pass.setPipeline(pipeline)
    pass.setBindGroup(0, world.device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }))
    if (entry === 'stir') pass.dispatchWorkgroups(1 + world.dice.below(8))
    else pass.dispatchWorkgroups(size / 4, size / 4)
    pass.end()
  },
  function render(world, encoder) {
    const { dice, device } = world
    const samples = dice.pick([1, 4])
    const format = dice.pick<GPUTextureFormat>(['depth24plus', 'depth24plus-stencil8', 'depth32float', 'depth16unorm'])
    const color = world.texture('rgba8unorm', samples, samples === 1 ? dice.below(2) : 0)
    const load = (): GPULoadOp => dice.pick(['load', 'load', 'clear'])
    const store = (): GPUStoreOp => dice.pick(['store', 'store', 'store', 'discard'])
    const pipeline = world.drawing(format, samples)
    const pass = encoder.beginRenderPass({
      colorAttachments: [
        {
          view: color.createView(),
          ...(samples === 4 && dice.isOdd() ? { resolveTarget: world.picture.createView() } : {}),
          loadOp: load(),
          storeOp: store(),
          clearValue: [0.2, 0.4, 0.6, 0.8],
        },
      ],
      depthStencilAttachment: {
        view: world.texture(format, samples).createView(),
        depthLoadOp: load(),
        depthStoreOp: store(),
        depthClearValue: 0.9,
        ...(format.endsWith('stencil8') ? { stencilLoadOp: load(), stencilStoreOp: store() } : {}),
      },
    })
    const instance = dice.below(20)
    if (dice.isOdd()) {
      pass.setPipeline(pipeline)
      pass.draw(3, 2, 0, instance)
    } else {
      const bundling = device.createRenderBundleEncoder({
        colorFormats: ['rgba8unorm'],
        depthStencilFormat: format,
        sampleCount: samples,
      })
      bundling.setPipeline(pipeline)
      bundling.draw(3, 1, 0, instance)
      pass.executeBundles([bundling.finish()])
    }
    pass.end()
  },
]

type Act = (world: World) => Promise<void> | void

const acts: readonly Act[] = [
  function write({ buffer, device, dice }) {
    device.queue.writeBuffer(buffer, 4 * dice.below(200), dice.bytes(4 * (1 + dice.below(50))))
  },
  function writeTexture({ picture, device, dice }) {
    const [width, height] = [1 + dice.below(size), 1 + dice.below(size)]
    const layout = { bytesPerRow: width * 4 + 8, offset: 4 }
    device.queue.writeTexture({ texture: picture }, dice.bytes(4 + layout.bytesPerRow * height), layout, [
      width,
      height,
    ])
  },
  function addBuffer(world) {
    if (world.buffers.length < 6) world.addBuffer()
  },
  function removeBuffer({ buffers }) {
    if (buffers.length > 3) buffers.shift()?.destroy()
  },
  function removeTexture(world) {
    world.forgetTexture()
  },
  async function wait({ device, pause }) {
    await device.queue.onSubmittedWorkDone()
    await pause()
  },
  async function readBack({ device, buffer, pause, results }) {
    results.push(await read(device, buffer, pause))
  },
  async function upload({ device, buffer, dice, pause }) {
    const staging = device.createBuffer({ size: 256, usage: Usage.MAP_WRITE | Usage.COPY_SRC })
    await staging.mapAsync(2)
    await pause()
    new Uint8Array(staging.getMappedRange()).set(dice.bytes(256))
    staging.unmap()
    const encoder = device.createCommandEncoder()
    encoder.copyBufferToBuffer(staging, 0, buffer, 256, 256)
    device.queue.submit([encoder.finish()])
    staging.destroy()
  },
  async function err({ device, dice, results, pause }) {
    device.pushErrorScope('validation')
    const isWrong = dice.isOdd()
    const odd = device.createBuffer({ size: 8, usage: isWrong ? 0 : Usage.COPY_DST })
    await pause()
    device.queue.writeBuffer(odd, 0, dice.bytes(8))
    results.push(Uint8Array.of((await device.popErrorScope()) === null ? 0 : 1))
  },
  async function count(world) {
    const { device, results, pause } = world
    const queries = device.createQuerySet({ type: 'occlusion', count: 2 })
    const answers = device.createBuffer({ size: 16, usage: Usage.QUERY_RESOLVE | Usage.COPY_SRC })
    const encoder = device.createCommandEncoder()
    const view = world.picture.createView()
    const pass = encoder.beginRenderPass({
      colorAttachments: [{ view, loadOp: 'load', storeOp: 'store' }],
      depthStencilAttachment: {
        view: world.texture('depth24plus', 1).createView(),
        depthLoadOp: 'load',
        depthStoreOp: 'store',
      },
      occlusionQuerySet: queries,
    })
    pass.setPipeline(world.drawing('depth24plus', 1))
    for (const query of [0, 1]) {
      pass.beginOcclusionQuery(query)
      pass.draw(3, 1, 0, query * 5)
      pass.endOcclusionQuery()
    }
    pass.end()
    device.queue.submit([encoder.finish()])
    await pause()
    const resolving = device.createCommandEncoder()
    resolving.resolveQuerySet(queries, 0, 2, answers, 0)
    device.queue.submit([resolving.finish()])
    // How many samples passed is a guess of the device's; whether any did is not.
    const passed = new BigUint64Array((await read(device, answers, pause)).slice().buffer)
    results.push(Uint8Array.from(passed, (samples) => Number(samples > 0n)))
  },
]

/** A program of calls of all kinds, in an order and with arguments that nobody thought of. */
export function randomProgram(seed: number, length: number = 40): Workload {
  return {
    name: `random program ${seed}`,
    async run(device, pause) {
      const world = new World(device, pause, seed)
      const { dice, results } = world
      for (let at = 0; at < length; at += 1) {
        if (dice.isOdd()) {
          await dice.pick(acts)(world)
          continue
        }
        const commands = Array.from({ length: 1 + dice.below(2) }, () => {
          const encoder = device.createCommandEncoder()
          for (let n = 1 + dice.below(3); n > 0; n -= 1) dice.pick(encodings)(world, encoder)
          return encoder.finish()
        })
        device.queue.submit(commands)
        await pause()
      }
      for (const nth of [0, 1]) {
        const buffer = world.buffers[nth] as GPUBuffer
        const encoder = device.createCommandEncoder()
        const texture = world.texture('rgba8unorm', 1, nth)
        encoder.copyTextureToBuffer({ texture }, { buffer, bytesPerRow }, [size, size])
        device.queue.submit([encoder.finish()])
      }
      for (const buffer of world.buffers) results.push(await read(device, buffer, pause))
      return join(...results)
    },
  }
}

function getOrMake<T>(all: Map<string, T>, key: string, make: () => T): T {
  const known = all.get(key)
  if (known !== undefined) return known
  const made = make()
  all.set(key, made)
  return made
}
