import { BufferUsage, MapMode } from '../flags.ts'
import type { DeviceGuard } from './device-guard.ts'
import type { Span } from './ring.ts'

/** Bytes that are compared as one. */
const chunkBytes = 4096

const threads = 64

/**
 * Four sums of 32 bits over a chunk, of every word mixed with its place under four keys. The mixing (MurmurHash3's
 * finaliser) is a bijection: a single changed word changes all four for certain, and two different contents have the
 * same 128 bits by a chance of one in 2^128. Sums can be made in any order, so all threads work at once.
 */
const shader = /* wgsl */ `
@group(0) @binding(0) var<storage, read> words: array<u32>;
@group(0) @binding(1) var<storage, read_write> digests: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> changed: array<atomic<u32>>;
struct Window { words: u32, firstChunk: u32, columns: u32 }
@group(0) @binding(3) var<uniform> window: Window;
const chunkWords = ${chunkBytes / 4}u;
const threads = ${threads}u;

fn mix(value: vec4<u32>) -> vec4<u32> {
  var x = value;
  x = (x ^ (x >> vec4(16u))) * 0x85ebca6bu;
  x = (x ^ (x >> vec4(13u))) * 0xc2b2ae35u;
  return x ^ (x >> vec4(16u));
}

@compute @workgroup_size(threads)
fn find(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let begin = ((group.y * window.columns + group.x) * threads + thread) * chunkWords;
  if (begin >= window.words) { return; }
  let end = min(chunkWords, window.words - begin);
  var sum = vec4(0u);
  var key = vec4(0u, 0x10000u, 0x20000u, 0x30000u) * 0x9e3779b9u;
  for (var at = 0u; at < end; at += 1u) {
    sum += mix(key ^ vec4(words[begin + at]));
    key += vec4(0x9e3779b9u);
  }
  let chunk = window.firstChunk + begin / chunkWords;
  if (any(digests[chunk] != sum)) {
    digests[chunk] = sum;
    atomicOr(&changed[chunk / 32u], 1u << (chunk % 32u));
  }
}`

/** Asks for what a `note` found, once the work was submitted. */
export type Found = (signal: AbortSignal | undefined) => Promise<readonly Span[]>

/**
 * Works out on the device which chunks of a buffer changed since the last time, so that only those cross the cable. It
 * takes 16 bytes of the device's memory for each chunk of 4 KiB; one bit of it is transferred.
 */
export class ChangeFinder {
  readonly #guard: DeviceGuard
  readonly #pipeline: GPUComputePipeline
  /** By name: one of each resource. */
  readonly #digests = new Map<string, GPUBuffer>()

  constructor(guard: DeviceGuard) {
    this.#guard = guard
    const module = guard.device.createShaderModule({ label: 'egpu changes', code: shader })
    this.#pipeline = guard.device.createComputePipeline({ label: 'egpu changes', layout: 'auto', compute: { module } })
  }

  /** Notes the comparison of a buffer (usage `STORAGE`) with what had this name the last time. */
  note(encoder: GPUCommandEncoder, name: string, source: GPUBuffer): Found {
    const { device } = this.#guard
    const chunks = Math.ceil(source.size / chunkBytes)
    const create = (size: number, usage: number): GPUBuffer =>
      device.createBuffer({ label: 'egpu changes', size, usage })
    let digests = this.#digests.get(name)
    if (digests === undefined) this.#digests.set(name, (digests = create(chunks * 16, BufferUsage.Storage)))
    const size = Math.ceil(chunks / 32) * 4
    const changed = create(size, BufferUsage.Storage | BufferUsage.CopySrc)
    const staging = create(size, BufferUsage.MapRead | BufferUsage.CopyDst)
    const short = [changed, staging]
    const pass = encoder.beginComputePass({ label: 'egpu changes' })
    pass.setPipeline(this.#pipeline)
    // A binding may be smaller than a buffer: then the buffer is looked at through one window after the other.
    const most = Math.floor(device.limits.maxStorageBufferBindingSize / chunkBytes) * chunkBytes
    for (let offset = 0; offset < source.size; offset += most) {
      const bytes = Math.min(most, source.size - offset)
      const count = Math.ceil(bytes / chunkBytes / threads)
      const columns = Math.min(count, device.limits.maxComputeWorkgroupsPerDimension)
      const window = create(16, BufferUsage.Uniform | BufferUsage.CopyDst)
      short.push(window)
      device.queue.writeBuffer(window, 0, new Uint32Array([bytes / 4, offset / chunkBytes, columns, 0]))
      const resources = [{ buffer: source, offset, size: bytes }, digests, changed, window]
      const group = device.createBindGroup({
        layout: this.#pipeline.getBindGroupLayout(0),
        entries: resources.map((one, binding) => ({ binding, resource: 'buffer' in one ? one : { buffer: one } })),
      })
      pass.setBindGroup(0, group)
      pass.dispatchWorkgroups(columns, Math.ceil(count / columns))
    }
    pass.end()
    encoder.copyBufferToBuffer(changed, 0, staging, 0, size)
    return async (signal) => {
      try {
        await this.#guard.map(staging, MapMode.Read, signal)
        return spansOf(new Uint32Array(staging.getMappedRange()), source.size)
      } finally {
        for (const buffer of short) buffer.destroy()
      }
    }
  }

  close(): void {
    for (const digests of this.#digests.values()) digests.destroy()
  }
}

/** The spans whose bits are set; neighbouring chunks are one span. */
export function spansOf(bits: Uint32Array, byteLength: number): readonly Span[] {
  const spans: { offset: number; byteLength: number }[] = []
  for (const [index, word] of bits.entries()) {
    if (word === 0) continue
    for (let bit = 0; bit < 32; bit += 1) {
      if (((word >>> bit) & 1) === 0) continue
      const offset = (index * 32 + bit) * chunkBytes
      const bytes = Math.min(chunkBytes, byteLength - offset)
      const last = spans.at(-1)
      if (last !== undefined && last.offset + last.byteLength === offset) last.byteLength += bytes
      else spans.push({ offset, byteLength: bytes })
    }
  }
  return spans
}
