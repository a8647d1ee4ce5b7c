import { randomInt } from 'node:crypto'
import { EGpuError, EGpuErrorCode, abandonable } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import type { Etcd3, IKeyValue, IOptions } from 'etcd3'
import { EtcdHistory } from './etcd-history.ts'
import type { Cluster, Entry, Lease, Outcome, Transaction } from './cluster.ts'

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
const attemptMs = { least: 200, most: 5_000 } as const
/** Of a lease: a member that is stopped costs this once, and all members together fit into it. */
const attemptShare = 1 / 8

/** A client that is younger when an attempt fails may still be connecting, and is kept. */
const connectMs = 1_000

/** Of this process: grpc shares a connection among clients of the same options, also one that is silent. */
let clients = 0

/**
 * Lease ids are chosen here, below 2^48. Those that etcd chooses have 63 bits, and where protobufjs finds no `long` (as under
 * `node --conditions import`, which makes it load an ES module it does not expect) they arrive rounded, as the id of no
 * lease.
 */
const leaseIdsBelow = 2 ** 48 - 1

interface Client {
  readonly etcd: Etcd3
  readonly openedAtMs: number
}

/** The member that is asked at the moment. */
interface Turn {
  readonly etcd: Etcd3
  /** Fires when another one is asked instead. */
  readonly over: AbortController
}

/**
 * The cluster, opened when it is first used; `etcd3` is loaded then and not before. One member is asked, watches
 * included, until it fails to answer; then it is the next one's turn. (`etcd3` itself takes any member for each call,
 * also one that is known to be dead, and stays with a watch on a member that went silent.) A client that
 * failed is replaced: after a cut, TCP tries old connections again only after about as long as the cut was, and new ones
 * come about at once.
 */
export class EtcdClient implements Cluster {
  readonly prefix: string
  readonly #options: EtcdOptions
  readonly #attemptMs: number
  readonly #clients: (Client | undefined)[]
  readonly #history: EtcdHistory
  #loading: Promise<typeof Etcd3> | undefined
  #index: number
  #over = new AbortController()
  #isClosed = false

  constructor(options: EtcdOptions, leaseMs: number) {
    if (options.hosts.length === 0) throw new TypeError('etcd needs at least one host')
    this.#options = options
    this.prefix = options.prefix ?? 'egpu/'
    this.#attemptMs = Math.min(attemptMs.most, Math.max(attemptMs.least, leaseMs * attemptShare))
    this.#clients = options.hosts.map(() => undefined)
    this.#history = new EtcdHistory(options.hosts.join(', '))
    // Not all hosts begin with the same member.
    this.#index = randomInt(options.hosts.length)
  }

  async transact({ when, put = [], remove = [], read = [] }: Transaction, options?: AbortOptions): Promise<Outcome> {
    const compared = Object.entries(when)
    const before = this.#history.latest
    const result = await this.#call((etcd) => {
      const reads = read.map((key) => etcd.get(this.prefix + key))
      const [[firstKey, ...first], ...others] = [
        // There is no transaction without a condition, so this one always holds.
        ['', 'Version', '>', -1],
        ...compared.map(([key, revision]) => [key, 'Mod', '==', revision] as const),
      ] as [Condition, ...Condition[]]
      let transaction = etcd.if(this.prefix + firstKey, ...first)
      for (const [key, ...condition] of others) transaction = transaction.and(this.prefix + key, ...condition)
      const writes = put.map(({ key, value, leaseId }) => {
        const write = etcd.put(this.prefix + key).value(value)
        return leaseId === undefined ? write : write.lease(leaseId)
      })
      const removals = remove.map((key) => etcd.delete().key(this.prefix + key))
      return transaction
        .then(...writes, ...removals, ...reads)
        .else(...reads)
        .commit()
    }, options)
    this.#history.hear(result.header, before)
    const found = result.responses.flatMap((response) => this.#entries(response.response_range?.kvs ?? []))
    return {
      succeeded: result.succeeded,
      revision: Number(result.header.revision),
      entries: new Map(found.map((entry) => [entry.key, entry])),
    }
  }

  async list(prefix: string, options?: AbortOptions): Promise<readonly Entry[]> {
    const before = this.#history.latest
    const { header, kvs } = await this.#call(
      (etcd) =>
        etcd
          .getAll()
          .prefix(this.prefix + prefix)
          .exec(),
      options,
    )
    this.#history.hear(header, before)
    return this.#entries(kvs)
  }

  async lease(ttlSeconds: number, options?: AbortOptions): Promise<Lease> {
    const grant = async (etcd: Etcd3): Promise<Lease> => {
      const id = String(randomInt(1, leaseIdsBelow))
      const { TTL: ttl } = await etcd.leaseClient.leaseGrant({ ID: id, TTL: ttlSeconds })
      return { id, ttlMs: Number(ttl) * 1_000 }
    }
    return this.#call(grant, options)
  }

  keepAlive(leaseId: string, options?: AbortOptions): Promise<boolean> {
    return this.#call(async (etcd) => {
      const stream = await etcd.leaseClient.leaseKeepAlive()
      try {
        return await new Promise<boolean>((resolve, reject) => {
          stream.on('data', ({ TTL: ttl }) => resolve(Number(ttl) > 0))
          stream.on('error', reject)
          stream.on('end', () => reject(new Error('the member ended the stream')))
          setTimeout(() => reject(new Error('the member did not answer in time')), this.#attemptMs).unref()
          stream.write({ ID: leaseId })
        })
      } finally {
        stream.end()
      }
    }, options)
  }

  async revoke(leaseId: string, options?: AbortOptions): Promise<void> {
    await this.#call((etcd) => etcd.leaseClient.leaseRevoke({ ID: leaseId }), options)
  }

  watch(prefix: string, changed: () => void, signal: AbortSignal): void {
    const follow = async (): Promise<void> => {
      while (!signal.aborted && !this.#isClosed) {
        const { etcd, over } = await this.#turn()
        const watcher = etcd
          .watch()
          .prefix(this.prefix + prefix)
          .watcher()
        for (const event of ['put', 'delete', 'connected'] as const) watcher.on(event as 'connected', changed)
        // Unheard, it would end the process.
        watcher.on('error', changed)
        await either(over.signal, signal)
        void watcher.cancel().catch(() => undefined)
        changed()
      }
    }
    // Whoever looks meets the same failure, and has somebody to tell.
    void follow().catch(() => undefined)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#over.abort()
    for (const client of this.#clients) client?.etcd.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /**
   * Asks one member after the other, beginning with the one that answered last. Whatever is asked must do no harm when it is done
   * twice. Rejects with the abort reason, with `EGPU_PEER_LOST` when no answer came (it may have been carried out all
   * the same), with `EGPU_NATIVE_UNAVAILABLE` when `etcd3` is not installed.
   */
  async #call<T>(work: (etcd: Etcd3) => Promise<T>, { signal }: AbortOptions = {}): Promise<T> {
    let why = 'no reason given'
    let cause: unknown
    for (let attempt = 0; attempt < this.#clients.length; attempt += 1) {
      signal?.throwIfAborted()
      const turn = await this.#turn()
      try {
        return await abandonable(work(turn.etcd), signal)
      } catch (error) {
        this.#next(turn)
        signal?.throwIfAborted()
        why = error instanceof Error ? error.message : String(error)
        cause = error
      }
    }
    const where = this.#options.hosts.join(', ')
    throw new EGpuError(EGpuErrorCode.PeerLost, `etcd at ${where} did not answer: ${why}`, { cause })
  }

  /** Several calls may have met the same silence: the first of them moves on. */
  #next({ over }: Turn): void {
    if (this.#over !== over) return
    const client = this.#clients[this.#index]
    const isStale = client !== undefined && performance.now() - client.openedAtMs > connectMs
    if (isStale) this.#clients[this.#index] = undefined
    this.#index = (this.#index + 1) % this.#clients.length
    this.#over = new AbortController()
    over.abort()
    if (isStale) client.etcd.close()
  }

  async #turn(): Promise<Turn> {
    const Etcd = await this.#load()
    if (this.#isClosed) throw new EGpuError(EGpuErrorCode.Closed, 'this coordinator was closed')
    const host = this.#options.hosts[this.#index] as string
    const client = (this.#clients[this.#index] ??= {
      etcd: new Etcd(this.#clientOptions(host)),
      openedAtMs: performance.now(),
    })
    return { etcd: client.etcd, over: this.#over }
  }

  async #load(): Promise<typeof Etcd3> {
    this.#loading ??= import('etcd3').then(({ Etcd3: Client }) => Client)
    try {
      return await this.#loading
    } catch (error) {
      this.#loading = undefined
      const message = 'the package etcd3 is not installed: npm install etcd3'
      throw new EGpuError(EGpuErrorCode.NativeUnavailable, message, { cause: error })
    }
  }

  #clientOptions(host: string): IOptions {
    const { credentials, auth } = this.#options
    return {
      hosts: host,
      dialTimeout: this.#attemptMs,
      defaultCallOptions: ({ isStream }) => (isStream ? {} : { deadline: Date.now() + this.#attemptMs }),
      // Which member is asked next is decided here.
      faultHandling: { host: () => once, global: once },
      ...(credentials === undefined ? {} : { credentials }),
      ...(auth === undefined ? {} : { auth }),
      grpcOptions: {
        'grpc.initial_reconnect_backoff_ms': 100,
        'grpc.max_reconnect_backoff_ms': 500,
        'egpu.client': (clients += 1),
        // Ends what was left open on a silent connection. etcd takes no more than a ping in 5 s.
        'grpc.keepalive_time_ms': 10_000,
        'grpc.keepalive_timeout_ms': 5_000,
      },
    }
  }

  #entries(found: readonly IKeyValue[]): Entry[] {
    return found.map(({ key, value, mod_revision: revision }) => ({
      key: key.toString('utf8').slice(this.prefix.length),
      value: value.toString('utf8'),
      revision: Number(revision),
    }))
  }
}

type Condition = [key: string, column: 'Version' | 'Mod', comparison: '>' | '==', value: number]
type Policy = NonNullable<NonNullable<IOptions['faultHandling']>['global']>

/** No retries and no circuit breaker: the call is made, once. */
const once = { execute: async (work: (context: unknown) => unknown) => work({}) } as unknown as Policy

/** Resolves when one of them fires. */
async function either(one: AbortSignal, other: AbortSignal): Promise<void> {
  const any = AbortSignal.any([one, other])
  if (any.aborted) return
  await new Promise((resolve) => any.addEventListener('abort', resolve, { once: true }))
}
