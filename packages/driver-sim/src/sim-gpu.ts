import type { AbortOptions } from '@egpu/core'

/** Memory on a simulated GPU. Its bytes are reachable only through the `SimGpu` that made it. */
export interface SimBuffer {
  readonly byteLength: number
  readonly label: string | undefined
}

/** Real bytes of a buffer, for the time of one kernel. Throws `TypeError` for a buffer of another GPU. */
export type SimBytes = (buffer: SimBuffer) => ArrayBuffer

/** The work itself: plain, synchronous code over the bytes of the buffers. Runs for real. */
export type SimKernel = (bytes: SimBytes) => void

/** What the work costs in the model: it takes as long as the slower of the two. Nothing given costs the overhead only. */
export interface SimKernelCost {
  readonly flops?: number | undefined
  /** Bytes that go through the GPU's own memory. */
  readonly vramBytes?: number | undefined
}

/**
 * What `OpenTarget.handle` is on a simulated target. Calls are carried out in order: a read sees everything issued
 * before it and nothing issued after, and does not hold up kernels. When the device is lost, every pending call rejects
 * with `EGPU_DEVICE_LOST`, later calls too, and the memory is gone, views that a kernel kept included. On a wedged
 * device calls never settle, except through their signal, until the target is closed. After `close()` calls reject with
 * `EGPU_CLOSED`, on a lost device still with `EGPU_DEVICE_LOST`.
 */
export interface SimGpu {
  readonly memory: { readonly totalBytes: number; readonly usedBytes: number }
  /**
   * Zeroed memory. Throws `EGPU_TARGET_INCOMPATIBLE` when the GPU has not so much left (that is no loss), and
   * `TypeError` for a length that is not a whole number of 0 or more.
   */
  createBuffer(byteLength: number, options?: { readonly label?: string | undefined }): SimBuffer
  /** Frees the memory. Twice is fine. */
  destroyBuffer(buffer: SimBuffer): void
  /** Copies to the GPU over its link. `data` is copied at once and may be reused when this returns. */
  write(buffer: SimBuffer, data: ArrayBufferView, options?: SimRange): Promise<void>
  /** Copies from the GPU over its link; the bytes are the caller's own. */
  read(buffer: SimBuffer, options?: SimReadRange): Promise<Uint8Array<ArrayBuffer>>
  /** Copies within the GPU, at the speed of its own memory. */
  copy(from: SimBuffer, to: SimBuffer, options?: AbortOptions): Promise<void>
  run(kernel: SimKernel, cost?: SimKernelCost & AbortOptions): Promise<void>
  /** Resolves when everything issued so far is done. */
  idle(options?: AbortOptions): Promise<void>
}

export interface SimRange extends AbortOptions {
  /** Where in the buffer; 0 by default. */
  readonly byteOffset?: number | undefined
}

export interface SimReadRange extends SimRange {
  /** Up to the end by default. */
  readonly byteLength?: number | undefined
}
