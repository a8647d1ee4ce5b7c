import { EventEmitter } from 'eventemitter3'
import type { Clock } from '../clock.ts'
import { EventQueue } from '../driver/event-queue.ts'
import type { EGpuEvent, EGpuEventType, UnstampedEvent } from '../types/events.ts'
import type { EventsOptions, NextOptions } from './options.ts'

interface Stream {
  readonly types: ReadonlySet<EGpuEventType> | undefined
  readonly queue: EventQueue<EGpuEvent>
}

/** Too many to come unasked: only who names them gets them. */
const byNameOnly: ReadonlySet<EGpuEventType> = new Set<EGpuEventType>(['health-sampled'])

const takes = ({ types }: Stream, type: EGpuEventType): boolean => types?.has(type) ?? !byNameOnly.has(type)

/** Hands events to whoever listens, in order, whatever the listeners do. */
export class EventHub {
  readonly #clock: Clock
  readonly #emitter = new EventEmitter<Record<string, [EGpuEvent]>>()
  readonly #streams = new Set<Stream>()
  readonly #waiting = new Set<(reason: unknown) => void>()
  /** Events that listeners caused while another was being delivered. */
  #deferred: EGpuEvent[] = []
  #delivering = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Lets the caller leave out what nobody would get. */
  wants(type: EGpuEventType): boolean {
    if (this.#emitter.listenerCount(type) > 0) return true
    if (this.#streams.size === 0) return false
    for (const stream of this.#streams) if (takes(stream, type)) return true
    return false
  }

  /** Stamps the event itself, so it has to be one that was made for this. */
  emit(event: UnstampedEvent): void {
    const stamped = event as UnstampedEvent & { atMs: number }
    stamped.atMs = this.#clock.now()
    this.#deliver(stamped)
  }

  on<T extends EGpuEventType>(type: T, listener: (event: EGpuEvent<T>) => unknown): () => void {
    if (typeof listener !== 'function') throw new TypeError(`a listener must be a function, not ${String(listener)}`)
    let subscribed = true
    const failed = (error: unknown): void => {
      // A listener of failures that fails has nobody left to tell.
      if (type !== 'listener-failed') this.emit({ type: 'listener-failed', event: type, error })
    }
    const guarded = (event: EGpuEvent): void => {
      // The emitter goes on with the listeners it had when it began.
      if (!subscribed) return
      try {
        const result = listener(event as unknown as EGpuEvent<T>)
        if (isThenable(result)) result.then(undefined, failed)
      } catch (error) {
        failed(error)
      }
    }
    this.#emitter.on(type, guarded)
    return () => {
      subscribed = false
      this.#emitter.off(type, guarded)
    }
  }

  next<T extends EGpuEventType>(type: T, { signal, where }: NextOptions<T> = {}): Promise<EGpuEvent<T>> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason)
        return
      }
      const settle = (): void => {
        off()
        this.#waiting.delete(fail)
        signal?.removeEventListener('abort', abort)
      }
      const fail = (reason: unknown): void => {
        settle()
        reject(reason)
      }
      const abort = (): void => fail(signal?.reason)
      const off = this.on(type, (event) => {
        try {
          if (where !== undefined && !where(event)) return
          settle()
          resolve(event)
        } catch (error) {
          fail(error)
        }
      })
      this.#waiting.add(fail)
      signal?.addEventListener('abort', abort, { once: true })
    })
  }

  /** Subscribed from the call on, not from the first read on. Holds what nobody has read yet. */
  events<T extends EGpuEventType>({ signal, types }: EventsOptions<T> = {}): AsyncIterableIterator<EGpuEvent<T>> {
    const queue = new EventQueue<EGpuEvent>({ signal, onEnd: () => this.#streams.delete(stream) })
    const stream: Stream = { types: types === undefined ? undefined : new Set<EGpuEventType>(types), queue }
    if (signal?.aborted !== true) this.#streams.add(stream)
    return queue as unknown as EventQueue<EGpuEvent<T>>
  }

  /** Streams end, waits reject with `reason`, listeners hear no more. */
  close(reason: unknown): void {
    for (const fail of this.#waiting) fail(reason)
    for (const { queue } of this.#streams) queue.finish()
    this.#emitter.removeAllListeners()
  }

  #deliver(event: EGpuEvent): void {
    if (this.#delivering) {
      this.#deferred.push(event)
      return
    }
    this.#delivering = true
    this.#hand(event)
    while (this.#deferred.length > 0) {
      const batch = this.#deferred
      this.#deferred = []
      for (const deferred of batch) this.#hand(deferred)
    }
    this.#delivering = false
  }

  #hand(event: EGpuEvent): void {
    this.#emitter.emit(event.type, event)
    if (this.#streams.size === 0) return
    for (const stream of this.#streams) if (takes(stream, event.type)) stream.queue.push(event)
  }
}

/** A promise of this or of any other realm or library. */
function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}
