import { RuntimeKind } from '@egpu/core'
import type { Checkpointable, ComputeTarget, FrozenState, OpenTarget, SavedState, WorkloadNeeds } from '@egpu/core'
import { checkpointBuffers } from '@egpu/driver-wgpu'
import type { BufferCheckpoint } from '@egpu/driver-wgpu'

/** How much state there is, how much of it each step changes, and how long it goes on. */
export interface FieldOptions {
  readonly id?: string
  readonly mebibytes: number
  readonly steps: number
  /** Steps of one submit. */
  readonly batch?: number
}

/** Of every 16 MiB of the field one MiB is worked on, at every step. */
const runWords = 2 ** 18
const strideWords = 2 ** 22
const rounds = 4
const workgroupSize = 256

const code = `
@group(0) @binding(0) var<storage, read_write> field: array<u32>;
@compute @workgroup_size(${workgroupSize}) fn step(@builtin(global_invocation_id) id: vec3u) {
  let i = id.x / ${runWords}u * ${strideWords}u + id.x % ${runWords}u;
  var v = field[i];
  for (var round = 0u; round < ${rounds}u; round++) { v = (v * 1664525u + 1013904223u) ^ (i * 2654435761u); }
  field[i] = v;
}`

interface Place {
  readonly target: ComputeTarget
  /** Begins so many steps; resolves when they are done, or when the device is lost. */
  begin(steps: number): Promise<void>
  freeze(progress: number, signal: AbortSignal): Promise<FrozenState>
  read(): Promise<Uint8Array<ArrayBuffer>>
  close(): void
}

/**
 * Integers that are mixed over and over, by WebGPU or by the processor with the same result to the bit: a step that is
 * lost or done twice shows in every word that is worked on.
 */
export class Field implements Checkpointable {
  readonly id: string
  readonly needs: WorkloadNeeds
  readonly finished: Promise<void>
  progress = 0
  /** The field after the last step. */
  result: Uint8Array<ArrayBuffer> | undefined
  /** Of all freezes that named what had changed: the bytes worked on since the one before, and the bytes read. */
  readonly saved = { freezes: 0, dirtyBytes: 0, movedBytes: 0 }
  readonly #options: FieldOptions
  #done: () => void = () => undefined
  #place: Place | undefined
  #frozenAt = 0
  /** Which loop may work; the ones before it are over. */
  #shift = 0

  constructor(options: FieldOptions) {
    this.#options = options
    this.id = options.id ?? 'field'
    this.needs = { runtimes: [RuntimeKind.WebGpu, RuntimeKind.Cpu], memoryBytes: 2 * this.byteLength }
    this.finished = new Promise((resolve) => (this.#done = resolve))
  }

  get byteLength(): number {
    return this.#options.mebibytes * 2 ** 20
  }

  get dirtyWords(): number {
    return Math.ceil(this.byteLength / 4 / strideWords) * runWords
  }

  async restore(open: OpenTarget, state: SavedState | undefined, { signal }: { signal: AbortSignal }): Promise<void> {
    const make = open.target.runtime === RuntimeKind.WebGpu ? onGpu : onProcessor
    this.#place = await make(open, this.byteLength, this.dirtyWords, state, signal)
    this.progress = state?.progress ?? 0
    this.#frozenAt = this.progress
  }

  resume(): void {
    this.#shift += 1
    if (this.#place !== undefined) void this.#work(this.#place, this.#shift)
  }

  async freeze({ signal }: { signal: AbortSignal }): Promise<FrozenState> {
    const place = this.#place as Place
    const frozen = await place.freeze(this.progress, signal)
    const dirtyBytes = frozen.progress > this.#frozenAt ? this.dirtyWords * 4 : 0
    this.#frozenAt = frozen.progress
    if (frozen.changed === undefined || frozen.readRange === undefined) return frozen
    this.saved.freezes += 1
    this.saved.dirtyBytes += dirtyBytes
    const readRange = frozen.readRange.bind(frozen)
    const { saved } = this
    return {
      ...frozen,
      async *readRange(range, options) {
        for await (const piece of readRange(range, options)) {
          saved.movedBytes += piece.byteLength
          yield piece
        }
      },
    }
  }

  async suspend(): Promise<void> {
    this.#shift += 1
  }

  async release({ lost }: { lost: boolean }): Promise<void> {
    this.#shift += 1
    if (!lost) this.#place?.close()
    this.#place = undefined
  }

  async #work(place: Place, shift: number): Promise<void> {
    const { steps, batch = 1 } = this.#options
    const underWay: Promise<void>[] = []
    while (this.#shift === shift && this.progress < steps) {
      const count = Math.min(batch, steps - this.progress)
      underWay.push(place.begin(count))
      this.progress += count
      if (underWay.length > 2) await underWay.shift()
    }
    await Promise.all(underWay)
    if (this.#shift !== shift) return
    // A lost device does not give its content: then the work goes on elsewhere.
    const result = await place.read().catch(() => undefined)
    if (result === undefined || this.#shift !== shift) return
    this.result = result
    this.#done()
  }
}

async function onGpu(
  open: OpenTarget,
  size: number,
  dirtyWords: number,
  state: SavedState | undefined,
  signal: AbortSignal,
): Promise<Place> {
  const target = open as OpenTarget<GPUDevice>
  const device = target.handle
  const field = device.createBuffer({ size, usage: 0x8c })
  const module = device.createShaderModule({ code })
  const pipeline = await device.createComputePipelineAsync({ layout: 'auto', compute: { module } })
  const entries = [{ binding: 0, resource: { buffer: field } }]
  const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries })
  const checkpoint: BufferCheckpoint = checkpointBuffers(target, { field })
  if (state !== undefined) await checkpoint.restore(state, { signal })
  return {
    target: open.target,
    async begin(steps) {
      const encoder = device.createCommandEncoder()
      const pass = encoder.beginComputePass()
      pass.setPipeline(pipeline)
      pass.setBindGroup(0, group)
      for (let step = 0; step < steps; step += 1) pass.dispatchWorkgroups(dirtyWords / workgroupSize)
      pass.end()
      device.queue.submit([encoder.finish()])
      await device.queue.onSubmittedWorkDone()
    },
    freeze: (progress, abort) => checkpoint.freezeChanges(progress, { signal: abort }),
    async read() {
      const bytes = new Uint8Array(size)
      await using frozen = checkpoint.freeze(0)
      await frozen.drainInto('field', bytes)
      return bytes
    },
    close() {
      checkpoint.close()
      field.destroy()
    },
  }
}

async function onProcessor(
  { target }: OpenTarget,
  size: number,
  dirtyWords: number,
  state: SavedState | undefined,
  signal: AbortSignal,
): Promise<Place> {
  const bytes = new Uint8Array(size)
  let at = 0
  for await (const piece of state?.read('field', { transient: true, signal }) ?? []) {
    bytes.set(piece, at)
    at += piece.byteLength
  }
  const words = new Uint32Array(bytes.buffer)
  return {
    target,
    async begin(steps) {
      for (let step = 0; step < steps; step += 1) mix(words, dirtyWords)
      // Calls of the migrator come between two batches.
      await new Promise((resolve) => setTimeout(resolve, 0))
    },
    async freeze(progress) {
      const copy = bytes.slice()
      return {
        progress,
        parts: [{ name: 'field', byteLength: size }],
        async *read() {
          for (let from = 0; from < size; from += 2 ** 20) yield copy.subarray(from, from + 2 ** 20)
        },
        async [Symbol.asyncDispose]() {},
      }
    },
    read: async () => bytes.slice(),
    close() {},
  }
}

function mix(words: Uint32Array, dirtyWords: number): void {
  for (let id = 0; id < dirtyWords; id += 1) {
    const i = Math.floor(id / runWords) * strideWords + (id % runWords)
    let v = words[i] as number
    for (let round = 0; round < rounds; round += 1) v = (Math.imul(v, 1664525) + 1013904223) ^ Math.imul(i, 2654435761)
    words[i] = v
  }
}
