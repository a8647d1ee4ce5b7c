import { EGpuError } from '@egpu/core'
import type { EGpuErrorCode, EGpuEvent } from '@egpu/core'

/** What the child asks the parent's store; answered with the same `id`. */
export interface StoreCall {
  readonly type: 'call'
  readonly id: number
  readonly method: string
  readonly args: readonly unknown[]
}

export type StoreAnswer =
  | { readonly type: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly type: 'answer'; readonly id: number; readonly error: SentError }

export type FromChild =
  | StoreCall
  | { readonly type: 'alive'; readonly progress: number | undefined }
  | { readonly type: 'event'; readonly event: Omit<EGpuEvent, 'error'> }
  | { readonly type: 'finished'; readonly result: unknown }
  /** The module could not be loaded, or made no work. */
  | { readonly type: 'unready'; readonly error: SentError }
  /** The work itself failed: to try it again would fail again. */
  | { readonly type: 'failed'; readonly error: SentError }

export type FromParent = StoreAnswer | { readonly type: 'stop' }

/** The answer to `begin`. */
export interface BegunWriter {
  readonly handle: number
  /** There where bytes can be taken over. */
  readonly unitBytes: number | undefined
}

/** An error, as it goes from one process to another. */
export interface SentError {
  readonly code: EGpuErrorCode | undefined
  readonly message: string
}

export function sendable(error: unknown): SentError {
  if (EGpuError.is(error)) return { code: error.code, message: error.message }
  return { code: undefined, message: error instanceof Error ? error.message : String(error) }
}

export function received({ code, message }: SentError): Error {
  return code === undefined ? new Error(message) : new EGpuError(code, message)
}
