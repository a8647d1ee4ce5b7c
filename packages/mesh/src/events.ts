import { EventEmitter } from 'eventemitter3'
import { EventQueue } from '@egpu/core/driver'
import type { AbortOptions, Finding } from '@egpu/core'
import { abort, assertKind, assertOptions, callback, oneOf, optional } from './arguments.ts'
import type { PeerConnectionEnd } from './control/peer-connection.ts'
import type { Refusal } from './control/control-plane.ts'
import type { MeshLink, MeshPeer, Neighbour } from './peer.ts'

interface EventPayloads {
  /** The first link to a paired host works. */
  'peer-connected': { readonly peer: MeshPeer }
  /** Its name or what it offers changed. */
  'peer-changed': { readonly peer: MeshPeer }
  /** No link to it works any more. Comes right after the last `link-down`. */
  'peer-lost': { readonly peer: MeshPeer }
  'link-up': { readonly peer: MeshPeer; readonly link: MeshLink }
  /** Trained or measured differently than before. */
  'link-changed': { readonly peer: MeshPeer; readonly before: MeshLink; readonly after: MeshLink }
  /** Never delayed. `reason` tells a pulled cable from a silent host and from a link that works one way only. */
  'link-down': {
    readonly peer: MeshPeer
    readonly link: MeshLink
    readonly reason: PeerConnectionEnd['reason']
    readonly message: string
  }
  /** A host that is not paired was heard of. */
  'neighbour-found': { readonly neighbour: Neighbour }
  /** A connection was refused, by this host or the other; the same is told once in five seconds. */
  refused: Refusal
  'findings-changed': { readonly findings: readonly Finding[] }
  /** A listener threw. It stays subscribed. */
  'listener-failed': { readonly event: string; readonly error: unknown }
}

export type MeshEventType = keyof EventPayloads

const types: Readonly<Record<MeshEventType, true>> = {
  'peer-connected': true,
  'peer-changed': true,
  'peer-lost': true,
  'link-up': true,
  'link-changed': true,
  'link-down': true,
  'neighbour-found': true,
  refused: true,
  'findings-changed': true,
  'listener-failed': true,
}
const eventType = oneOf(Object.keys(types))

export type MeshEvent<T extends MeshEventType = MeshEventType> = {
  [K in T]: { readonly type: K } & EventPayloads[K]
}[T]

/** Hands a mesh's events to whoever listens, in order. */
export class MeshEvents {
  readonly #emitter = new EventEmitter<Record<string, [MeshEvent]>>()
  readonly #streams = new Set<EventQueue<MeshEvent>>()
  readonly #closed = new AbortController()

  emit<T extends MeshEventType>(type: T, payload: EventPayloads[T]): void {
    const event = { type, ...payload } as unknown as MeshEvent
    this.#emitter.emit(type, event)
    for (const stream of this.#streams) stream.push(event)
  }

  on<T extends MeshEventType>(type: T, listener: (event: MeshEvent<T>) => unknown): () => void {
    assertKind('the type of an event', type, eventType)
    assertKind('a listener', listener, callback)
    const failed = (error: unknown): void => {
      // A listener of failures that fails has nobody left to tell.
      if (type !== 'listener-failed') this.emit('listener-failed', { event: type, error })
    }
    const guarded = (event: MeshEvent): void => {
      try {
        Promise.resolve(listener(event as unknown as MeshEvent<T>)).catch(failed)
      } catch (error) {
        failed(error)
      }
    }
    this.#emitter.on(type, guarded)
    return () => this.#emitter.off(type, guarded)
  }

  next<T extends MeshEventType>(
    type: T,
    options: AbortOptions & { readonly where?: (event: MeshEvent<T>) => boolean } = {},
  ): Promise<MeshEvent<T>> {
    assertOptions('the options of next', options, { ...abort, where: optional(callback) })
    const { signal, where = () => true } = options
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        off()
        signal?.removeEventListener('abort', abort)
        this.#closed.signal.removeEventListener('abort', end)
      }
      const abort = (): void => {
        settle()
        reject(signal?.reason)
      }
      const end = (): void => {
        settle()
        reject(this.#closed.signal.reason)
      }
      const off = this.on(type, (event) => {
        if (!where(event)) return
        settle()
        resolve(event)
      })
      signal?.addEventListener('abort', abort, { once: true })
      this.#closed.signal.addEventListener('abort', end, { once: true })
      if (signal?.aborted === true) abort()
      else if (this.#closed.signal.aborted) end()
    })
  }

  /** Subscribed from the call on. Ends when the mesh is closed or `signal` fires. */
  stream(options: AbortOptions): AsyncIterableIterator<MeshEvent> {
    assertOptions('the options of events', options, abort)
    const { signal } = options
    const queue = new EventQueue<MeshEvent>({ signal, onEnd: () => this.#streams.delete(queue) })
    if (signal?.aborted !== true) this.#streams.add(queue)
    return queue
  }

  close(reason: unknown): void {
    this.#closed.abort(reason)
    for (const stream of this.#streams) stream.finish()
    this.#emitter.removeAllListeners()
  }
}
