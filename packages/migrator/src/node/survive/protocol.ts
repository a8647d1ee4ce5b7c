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
  | { readonly type: 'event'; readonly event: SentEvent }
  | { readonly type: 'finished'; readonly result: unknown }
  /** The module could not be loaded, or made no work that can be run. */
  | { readonly type: 'unready'; readonly error: SentError }
  /** The work itself failed: to try it again would fail again. */
  | { readonly type: 'failed'; readonly error: SentError }

/** The answer to `begin`. */
export interface BegunWriter {
  readonly handle: number
  /** There where bytes can be taken over. */
  readonly unitBytes: number | undefined
}

/** An event, as it goes from one process to another. */
export interface SentEvent {
  readonly event: Omit<EGpuEvent, 'error'>
  readonly error: SentError | undefined
}

/** An error, as it goes from one process to another. */
export interface SentError {
  readonly name: string
  readonly message: string
  readonly stack: string | undefined
  /** One of ours, or the system's. */
  readonly code: string | undefined
  readonly isOurs: boolean
  readonly cause: SentError | undefined
}

export function sendable(error: unknown): SentError {
  if (!(error instanceof Error)) {
    return { name: 'Error', message: String(error), stack: undefined, code: undefined, isOurs: false, cause: undefined }
  }
  const { name, message, stack, cause } = error
  const { code } = error as NodeJS.ErrnoException
  return {
    name,
    message,
    stack,
    code: typeof code === 'string' ? code : undefined,
    isOurs: EGpuError.is(error),
    cause: cause === undefined ? undefined : sendable(cause),
  }
}

export function received({ name, message, stack, code, isOurs, cause: sent }: SentError): Error {
  const cause = sent === undefined ? {} : { cause: received(sent) }
  if (isOurs) return new EGpuError(code as EGpuErrorCode, message, cause)
  const error = new Error(message, cause)
  return Object.assign(error, { name, stack: stack ?? error.stack }, code === undefined ? {} : { code })
}

export function sendableEvent(event: EGpuEvent): SentEvent {
  const { error, ...rest } = event as EGpuEvent & { readonly error?: unknown }
  return {
    event: JSON.parse(JSON.stringify(rest)) as SentEvent['event'],
    error: error === undefined ? undefined : sendable(error),
  }
}

export function receivedEvent({ event, error }: SentEvent): EGpuEvent {
  return (error === undefined ? event : { ...event, error: received(error) }) as EGpuEvent
}
