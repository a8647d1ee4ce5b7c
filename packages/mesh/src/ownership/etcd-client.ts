import { randomInt } from 'node:crypto'
import { EGpuError, EGpuErrorCode, abandonable } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import type { Etcd3, IOptions } from 'etcd3'

/** Where an etcd cluster is. */
export interface EtcdOptions {
  /** Every member: `http://10.0.0.1:2379`, or `https://`. */
  readonly hosts: readonly string[]
  readonly credentials?:
    | { readonly rootCertificate: Buffer; readonly privateKey?: Buffer; readonly certChain?: Buffer }
    | undefined
  readonly auth?: { readonly username: string; readonly password: string } | undefined
  /** Everything is kept under it. Default `egpu/`. */
  readonly prefix?: string | undefined
}

/** One call to one member may take so long; the next attempt goes to another one. */
const leastAttemptMs = 300

/**
 * Lease ids are chosen here, below 2^48. Those that etcd chooses have 63 bits, and where protobufjs finds no `long` (as under
 * `node --conditions import`, which makes it load an ES module it does not expect) they arrive rounded, as the id of no
 * lease.
 */
const leaseIdsBelow = 2 ** 48 - 1

/** The cluster, opened when it is first used; `etcd3` is loaded then and not before. */
export class EtcdClient implements AsyncDisposable {
  readonly prefix: string
  readonly #options: EtcdOptions
  readonly #attemptMs: number
  #opening: Promise<Etcd3> | undefined
  #isClosed = false

  constructor(options: EtcdOptions, leaseMs: number) {
    if (options.hosts.length === 0) throw new TypeError('etcd needs at least one host')
    this.#options = options
    this.prefix = options.prefix ?? 'egpu/'
    this.#attemptMs = Math.max(leastAttemptMs, leaseMs / 5)
  }

  /**
   * One attempt at one member. Rejects with the abort reason, with `EGPU_PEER_LOST` when no answer came (it may have been
   * carried out all the same), with `EGPU_NATIVE_UNAVAILABLE` when `etcd3` is not installed.
   */
  async call<T>(work: (etcd: Etcd3) => Promise<T>, { signal }: AbortOptions = {}): Promise<T> {
    signal?.throwIfAborted()
    const etcd = await this.#open()
    try {
      return await abandonable(work(etcd), signal)
    } catch (error) {
      if (signal?.aborted === true && error === signal.reason) throw error
      const why = error instanceof Error ? error.message : String(error)
      throw new EGpuError(EGpuErrorCode.PeerLost, `etcd at ${this.#options.hosts.join(', ')} did not answer: ${why}`, {
        cause: error,
      })
    }
  }

  /** A lease that is never renewed: who wants to keep something puts it under a new one. */
  async lease(ttlSeconds: number, options?: AbortOptions): Promise<{ readonly id: string; readonly ttlMs: number }> {
    const id = String(randomInt(1, leaseIdsBelow))
    const { TTL: ttl } = await this.call((etcd) => etcd.leaseClient.leaseGrant({ ID: id, TTL: ttlSeconds }), options)
    return { id, ttlMs: Number(ttl) * 1_000 }
  }

  /** Calls `changed` whenever a key under `prefix` may have changed, until the signal fires. */
  async watch(prefix: string, changed: () => void, signal: AbortSignal): Promise<void> {
    const etcd = await this.#open()
    const watcher = etcd.watch().prefix(prefix).watcher()
    const cancel = (): void => void watcher.cancel().catch(() => undefined)
    for (const event of ['put', 'delete', 'connected'] as const) watcher.on(event as 'connected', changed)
    watcher.on('error', changed)
    signal.addEventListener('abort', cancel, { once: true })
    if (signal.aborted) cancel()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const etcd = await this.#opening?.catch(() => undefined)
    etcd?.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #open(): Promise<Etcd3> {
    if (this.#isClosed) return Promise.reject(new EGpuError(EGpuErrorCode.Closed, 'this coordinator was closed'))
    return (this.#opening ??= this.#load())
  }

  async #load(): Promise<Etcd3> {
    const { hosts, credentials, auth } = this.#options
    const { Etcd3: Client } = await import('etcd3').catch((error: unknown) => {
      this.#opening = undefined
      const message = 'the package etcd3 is not installed: npm install etcd3'
      throw new EGpuError(EGpuErrorCode.NativeUnavailable, message, { cause: error })
    })
    const options: IOptions = {
      hosts: [...hosts],
      dialTimeout: this.#attemptMs,
      defaultCallOptions: ({ isStream }) => (isStream ? {} : { deadline: Date.now() + this.#attemptMs }),
      // Who holds an ownership knows best how much time is left for another attempt.
      faultHandling: { host: () => once, global: once },
      ...(credentials === undefined ? {} : { credentials }),
      ...(auth === undefined ? {} : { auth }),
      grpcOptions: { 'grpc.initial_reconnect_backoff_ms': 100, 'grpc.max_reconnect_backoff_ms': 500 },
    }
    return new Client(options)
  }
}

type Policy = NonNullable<NonNullable<IOptions['faultHandling']>['global']>

/** No retries and no circuit breaker: the call is made, once. */
const once = { execute: async (work: (context: unknown) => unknown) => work({}) } as unknown as Policy
