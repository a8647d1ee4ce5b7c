import { BufferUsage } from '../../flags.ts'
import type { Core } from '../core.ts'
import { quietly } from '../quietly.ts'
import { Node } from './node.ts'
import { Ranges } from './ranges.ts'

const { MapRead, MapWrite, CopySrc, CopyDst } = BufferUsage
/** All usages of the specification. */
const knownUsages = 0x3ff

/** A mapping as the application sees it. */
export interface Mapping {
  readonly mode: 'read' | 'write'
  readonly offset: number
  readonly size: number
  /** What the whole mapped range holds, unless it is all zeros. */
  readonly content: Uint8Array | undefined
  /** Ranges that were handed out. */
  readonly ranges: { readonly offset: number; readonly bytes: ArrayBuffer }[]
}

/**
 * A buffer. On the device it always is a plain one that can be copied from and to, whatever the application declared:
 * a mappable one could not be saved, and what is mapped would go with the device. Mappings are played on host memory.
 */
export class BufferNode extends Node<GPUBuffer> {
  readonly size: number
  readonly usage: number
  /** The application's own descriptor. */
  readonly descriptor: GPUBufferDescriptor
  /** The descriptor is one that the device refuses; so it is used as it is, for the device's own errors. */
  readonly isRefused: boolean
  isDestroyed = false
  /** The log still has to go past the destruction: until then it must live again on the next device. */
  isDestroyLogged = false
  mapping: Mapping | undefined
  /** Rejects the `mapAsync` under way. */
  cancelMap: ((error: unknown) => void) | undefined
  /** Changed since the last checkpoint. */
  readonly dirty: Ranges = new Ranges()
  /** What it held at the last checkpoint; `undefined` is zeros. */
  saved: Uint8Array | undefined
  /** What the host wrote last, for buffers that only the host writes. */
  hostContent: Uint8Array | undefined
  #twin: GPUBuffer | undefined

  constructor(core: Core, descriptor: GPUBufferDescriptor) {
    const isRefused = !isAcceptable(descriptor, core.device.limits)
    super(core, create(core.device, descriptor, isRefused), descriptor.label ?? '')
    this.descriptor = descriptor
    this.isRefused = isRefused
    this.size = this.real.size
    this.usage = isRefused ? this.real.usage : descriptor.usage
    core.register(this)
  }

  build(device: GPUDevice): GPUBuffer {
    this.#twin = undefined
    const real = create(device, this.descriptor, this.isRefused)
    if (this.isDestroyed && !this.isDestroyLogged) real.destroy()
    return real
  }

  /** Bytes that WebGPU can copy: it copies whole words. */
  get copyableSize(): number {
    return this.size - (this.size % 4)
  }

  get isMappable(): boolean {
    return (this.usage & (MapRead | MapWrite)) !== 0
  }

  /** The buffer for an operation that needs a usage. Without that usage it is one on which the device refuses it. */
  realFor(usage: number): GPUBuffer {
    return (this.usage & usage) !== 0 ? this.real : this.twin()
  }

  /** A buffer exactly as declared, to get the device's own errors from. */
  twin(): GPUBuffer {
    this.#twin ??= this.makeTwin({})
    return this.#twin
  }

  makeTwin(changes: Partial<GPUBufferDescriptor>): GPUBuffer {
    const { device } = this.core
    // What is wrong with the descriptor was told when the buffer was made.
    return quietly(device, () => device.createBuffer({ ...this.descriptor, mappedAtCreation: false, ...changes }))
  }

  markWritten(start: number, end: number): void {
    this.dirty.add(start - (start % 4), Math.min(end + ((4 - (end % 4)) % 4), this.copyableSize))
  }
}

function create(device: GPUDevice, descriptor: GPUBufferDescriptor, isRefused: boolean): GPUBuffer {
  if (isRefused) return device.createBuffer(descriptor)
  const kept = descriptor.usage & ~(MapRead | MapWrite)
  return device.createBuffer({
    label: descriptor.label ?? '',
    size: descriptor.size,
    usage: kept | CopySrc | CopyDst,
  })
}

/** The rules of "GPUDevice.createBuffer()" in the specification. */
function isAcceptable({ size, usage, mappedAtCreation }: GPUBufferDescriptor, limits: GPUSupportedLimits): boolean {
  if (!Number.isInteger(size) || !Number.isInteger(usage)) return false
  if (usage === 0 || (usage & ~knownUsages) !== 0 || size < 0 || size > limits.maxBufferSize) return false
  if ((usage & MapRead) !== 0 && (usage & ~(MapRead | CopyDst)) !== 0) return false
  if ((usage & MapWrite) !== 0 && (usage & ~(MapWrite | CopySrc)) !== 0) return false
  return mappedAtCreation !== true || size % 4 === 0
}
