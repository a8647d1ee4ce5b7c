import { BufferUsage, MapMode } from '../flags.ts'
import type { DeviceGuard } from './device-guard.ts'
import type { Span } from './ring.ts'

/** Bytes that are compared as one. */
export const comparedBytes = 4096

/** They share a chunk: neighbours read neighbouring words, as a GPU's memory wants it. */
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
struct Window { words: u32, firstChunk: u32, columns: u32, firstBit: u32 }
@group(0) @binding(3) var<uniform> window: Window;
const chunkWords = ${comparedBytes / 4}u;
const threads = ${threads}u;

fn mix(value: vec4<u32>) -> vec4<u32> {
  var x = value;
  x = (x ^ (x >> vec4(16u))) * 0x85ebca6bu;
  x = (x ^ (x >> vec4(13u))) * 0xc2b2ae35u;
  return x ^ (x >> vec4(16u));
}

var<workgroup> sums: array<vec4<u32>, threads>;

@compute @workgroup_size(threads)
fn find(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let nth = group.y * window.columns + group.x;
  let begin = nth * chunkWords;
  if (begin >= window.words) { return; }
  let end = min(chunkWords, window.words - begin);
  var sum = vec4(0u);
  for (var at = thread; at < end; at += threads) {
    let key = (vec4(0u, 0x10000u, 0x20000u, 0x30000u) + vec4(at)) * 0x9e3779b9u;
    sum += mix(key ^ vec4(words[begin + at]));
  }
  sums[thread] = sum;
  for (var half = threads / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (thread < half) { sums[thread] += sums[thread + half]; }
  }
  if (thread != 0u) { return; }
  let chunk = window.firstChunk + nth;
  if (any(digests[chunk] != sums[0])) {
    digests[chunk] = sums[0];
    let bit = window.firstBit + nth;
    atomicOr(&changed[bit / 32u], 1u << (bit % 32u));
  }
}`

/** Asks for what a `note` found, once the work was submitted. */
export type Found = (signal: AbortSignal | undefined) => Promise<readonly Span[]>

/** A copy of a part of a resource. */
export interface Copied {
  /** Usage `STORAGE`. */
  readonly buffer: GPUBuffer
  /** Where in the buffer it begins: a multiple of 256. */
  readonly at: number
  /** Where in the resource it begins: a multiple of 4096. */
  readonly offset: number
  /** A multiple of 4; one of 4096, too, unless it goes to the end of the resource. */
  readonly byteLength: number
}

/**
 * Works out on the device which chunks of a buffer changed since the last time, so that only those cross the cable. It
 * takes 16 bytes of the device's memory for each chunk of 4 KiB; one bit of it is transferred.
 */
export class ChangeFinder {
  readonly #guard: DeviceGuard
  readonly #pipeline: GPUComputePipeline

  constructor(guard: DeviceGuard) {
    this.#guard = guard
    const module = guard.device.createShaderModule({ label: 'egpu changes', code: shader })
    this.#pipeline = guard.device.createComputePipeline({ label: 'egpu changes', layout: 'auto', compute: { module } })
  }

  /** Room for what a resource of this size was the last time: nothing yet, so that all of it counts as changed. */
  createDigests(byteLength: number): GPUBuffer {
    return this.#create(Math.ceil(byteLength / comparedBytes) * 16, BufferUsage.Storage)
  }

  /** Notes the comparison of a copy with what the same part was the last time; what is found is counted from its begin. */
  note(encoder: GPUCommandEncoder, digests: GPUBuffer, source: Copied): Found {
    const { device } = this.#guard
    const size = Math.ceil(source.byteLength / comparedBytes / 32) * 4
    const changed = this.#create(size, BufferUsage.Storage | BufferUsage.CopySrc)
    const staging = this.#create(size, BufferUsage.MapRead | BufferUsage.CopyDst)
    const short = [changed, staging]
    const pass = encoder.beginComputePass({ label: 'egpu changes' })
    pass.setPipeline(this.#pipeline)
    // A binding may be smaller than a buffer: then the buffer is looked at through one window after the other.
    const most = Math.floor(device.limits.maxStorageBufferBindingSize / comparedBytes) * comparedBytes
    for (let done = 0; done < source.byteLength; done += most) {
      const bytes = Math.min(most, source.byteLength - done)
      const count = Math.ceil(bytes / comparedBytes)
      const columns = Math.min(count, device.limits.maxComputeWorkgroupsPerDimension)
      const window = this.#create(16, BufferUsage.Uniform | BufferUsage.CopyDst)
      short.push(window)
      const firstChunk = (source.offset + done) / comparedBytes
      device.queue.writeBuffer(window, 0, new Uint32Array([bytes / 4, firstChunk, columns, done / comparedBytes]))
      const resources = [{ buffer: source.buffer, offset: source.at + done, size: bytes }, digests, changed, window]
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
        return spansOf(new Uint32Array(staging.getMappedRange()), source.byteLength)
      } finally {
        for (const buffer of short) buffer.destroy()
      }
    }
  }

  #create(size: number, usage: number): GPUBuffer {
    return this.#guard.device.createBuffer({ label: 'egpu changes', size, usage })
  }
}

/** The spans whose bits are set; neighbouring chunks are one span. */
export function spansOf(bits: Uint32Array, byteLength: number): readonly Span[] {
  const spans: { offset: number; byteLength: number }[] = []
  for (const [index, word] of bits.entries()) {
    if (word === 0) continue
    for (let bit = 0; bit < 32; bit += 1) {
      if (((word >>> bit) & 1) === 0) continue
      const offset = (index * 32 + bit) * comparedBytes
      const bytes = Math.min(comparedBytes, byteLength - offset)
      const last = spans.at(-1)
      if (last !== undefined && last.offset + last.byteLength === offset) last.byteLength += bytes
      else spans.push({ offset, byteLength: bytes })
    }
  }
  return spans
}
