import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { Clock } from '@egpu/core'
import type { Cluster, Entry, Lease, Outcome, Transaction } from '../../src/ownership/cluster.ts'

/** What happens to the next request: it never arrives, its answer does not, or it arrives when it is long given up. */
export type Mishap = 'request lost' | 'answer lost' | 'request late'

/** The state of an etcd in memory and in a clock's time; every host has a `connection` of its own. */
export class MemoryCluster {
  readonly clock: Clock
  readonly #entries = new Map<string, Entry & { readonly leaseId: string | undefined }>()
  readonly #leases = new Map<string, { readonly ttlMs: number; endsMs: number }>()
  readonly #watchers = new Set<{ readonly prefix: string; readonly changed: () => void }>()
  /** A thousand hosts list the same. */
  readonly #listed = new Map<string, { readonly revision: number; readonly entries: readonly Entry[] }>()
  #revision = 1
  #lastLease = 0

  constructor(clock: Clock) {
    this.clock = clock
  }

  get revision(): number {
    return this.#revision
  }

  connection(): Connection {
    return new Connection(this)
  }

  /** What a new leader does: no lease has begun to run, as far as it knows. */
  changeLeader(): void {
    for (const [id, lease] of this.#leases) {
      lease.endsMs = this.clock.now() + lease.ttlMs
      this.#expire(id)
    }
  }

  /** All the time of all leases is over, whatever the clock says. */
  expireAll(): void {
    for (const id of this.#leases.keys()) this.revoke(id)
  }

  grant(ttlSeconds: number): Lease {
    const id = String((this.#lastLease += 1))
    const ttlMs = ttlSeconds * 1_000
    this.#leases.set(id, { ttlMs, endsMs: this.clock.now() + ttlMs })
    this.#expire(id)
    return { id, ttlMs }
  }

  keepAlive(id: string): boolean {
    const lease = this.#leases.get(id)
    if (lease === undefined) return false
    lease.endsMs = this.clock.now() + lease.ttlMs
    return true
  }

  revoke(id: string): void {
    this.#leases.delete(id)
    const gone = [...this.#entries.values()].filter(({ leaseId }) => leaseId === id).map(({ key }) => key)
    if (gone.length > 0) this.#revision += 1
    for (const key of gone) this.#entries.delete(key)
    this.#tell(gone)
  }

  apply({ when, put = [], remove = [], read = [] }: Transaction): Outcome {
    const succeeded = Object.entries(when).every(
      ([key, revision]) => (this.#entries.get(key)?.revision ?? 0) === revision,
    )
    const changes = succeeded ? [...put.map(({ key }) => key), ...remove] : []
    if (changes.length > 0) this.#revision += 1
    if (succeeded) {
      for (const { key, value, leaseId } of put) {
        if (leaseId !== undefined && !this.#leases.has(leaseId)) throw lost('requested lease not found')
        this.#entries.set(key, { key, value, leaseId, revision: this.#revision })
      }
      for (const key of remove) this.#entries.delete(key)
    }
    this.#tell(changes)
    const found = read.flatMap((key) => this.#entries.get(key) ?? [])
    return { succeeded, revision: this.#revision, entries: new Map(found.map((entry) => [entry.key, entry])) }
  }

  list(prefix: string): readonly Entry[] {
    const known = this.#listed.get(prefix)
    if (known?.revision === this.#revision) return known.entries
    const found = [...this.#entries.values()].filter(({ key }) => key.startsWith(prefix))
    const entries = found.toSorted((a, b) => (a.key < b.key ? -1 : 1))
    this.#listed.set(prefix, { revision: this.#revision, entries })
    return entries
  }

  watch(prefix: string, changed: () => void, signal: AbortSignal): void {
    const watcher = { prefix, changed }
    this.#watchers.add(watcher)
    signal.addEventListener('abort', () => this.#watchers.delete(watcher), { once: true })
  }

  #tell(keys: readonly string[]): void {
    for (const { prefix, changed } of this.#watchers) if (keys.some((key) => key.startsWith(prefix))) changed()
  }

  #expire(id: string): void {
    const lease = this.#leases.get(id)
    if (lease === undefined) return
    void this.clock.sleep(lease.endsMs - this.clock.now()).then(() => {
      if (this.#leases.get(id) !== lease) return
      // Kept alive meanwhile.
      if (lease.endsMs > this.clock.now()) this.#expire(id)
      else this.revoke(id)
    })
  }
}

/** One host's way to the cluster, on which things can go wrong. */
export class Connection implements Cluster {
  readonly #cluster: MemoryCluster
  readonly #mishaps: Mishap[] = []
  readonly #late: (() => void)[] = []
  /** Nothing gets through. */
  isCut = false
  /** Changes are not told, as by a member that went silent. */
  isDeaf = false
  /** Requests made, and changes heard of. */
  requests = 0
  notices = 0

  constructor(cluster: MemoryCluster) {
    this.#cluster = cluster
  }

  /** For the next transactions that write, one after the other. */
  expect(...mishaps: readonly Mishap[]): void {
    this.#mishaps.push(...mishaps)
  }

  /** What was late arrives now. */
  deliver(): void {
    for (const arrive of this.#late.splice(0)) arrive()
  }

  async transact(transaction: Transaction): Promise<Outcome> {
    this.#ask()
    const isWrite = (transaction.put ?? transaction.remove) !== undefined
    const mishap = isWrite ? this.#mishaps.shift() : undefined
    if (mishap === 'request lost') throw lost('no answer')
    if (mishap === 'request late') {
      this.#late.push(() => void this.#cluster.apply(transaction))
      throw lost('no answer')
    }
    const outcome = this.#cluster.apply(transaction)
    if (mishap === 'answer lost') throw lost('no answer')
    return outcome
  }

  async list(prefix: string): Promise<readonly Entry[]> {
    this.#ask()
    return this.#cluster.list(prefix)
  }

  async lease(ttlSeconds: number): Promise<Lease> {
    this.#ask()
    return this.#cluster.grant(ttlSeconds)
  }

  async keepAlive(leaseId: string): Promise<boolean> {
    this.#ask()
    return this.#cluster.keepAlive(leaseId)
  }

  async revoke(leaseId: string): Promise<void> {
    this.#ask()
    this.#cluster.revoke(leaseId)
  }

  watch(prefix: string, changed: () => void, signal: AbortSignal): void {
    const hear = (): void => {
      if (this.isCut || this.isDeaf) return
      this.notices += 1
      changed()
    }
    this.#cluster.watch(prefix, hear, signal)
  }

  async close(): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {}

  #ask(): void {
    this.requests += 1
    if (this.isCut) throw lost('cut off')
  }
}

function lost(why: string): EGpuError {
  return new EGpuError(EGpuErrorCode.PeerLost, why)
}
