import type { AbortOptions } from '@egpu/core'

/** A key of a cluster, as it stands. */
export interface Entry {
  readonly key: string
  readonly value: string
  /** Revision it was last written at; revisions rise with every write to the cluster. */
  readonly revision: number
}

export interface Write {
  readonly key: string
  readonly value: string
  /** It goes when this lease ends; it stays when left out. */
  readonly leaseId?: string | undefined
}

/** All or nothing. */
export interface Transaction {
  /** Goes through only if each of these keys was last written at this revision; 0 for one that must not be there. */
  readonly when: Readonly<Record<string, number>>
  readonly put?: readonly Write[] | undefined
  readonly remove?: readonly string[] | undefined
  /** What to tell of, in either case, as it is afterwards. */
  readonly read?: readonly string[] | undefined
}

export interface Outcome {
  readonly succeeded: boolean
  /** Of the cluster, with this transaction in it. */
  readonly revision: number
  /** Those of `read` that are there. */
  readonly entries: ReadonlyMap<string, Entry>
}

export interface Lease {
  readonly id: string
  /** What the cluster made of the wish, which may be more. */
  readonly ttlMs: number
}

/**
 * What is asked of an etcd, or of anything else that keeps keys under a majority. Implementers: a call that rejects with
 * `EGPU_PEER_LOST` may have been carried out, or may be later; what is read is what a majority agrees on now.
 */
export interface Cluster extends AsyncDisposable {
  transact(transaction: Transaction, options?: AbortOptions): Promise<Outcome>
  list(prefix: string, options?: AbortOptions): Promise<readonly Entry[]>
  lease(ttlSeconds: number, options?: AbortOptions): Promise<Lease>
  /** Begins a lease's time anew. Resolves to whether it was still there. */
  keepAlive(leaseId: string, options?: AbortOptions): Promise<boolean>
  /** Ends a lease, and with it what was put under it. */
  revoke(leaseId: string, options?: AbortOptions): Promise<void>
  /** Calls `changed` whenever a key under `prefix` may have changed, until the signal fires. */
  watch(prefix: string, changed: () => void, signal: AbortSignal): void
  close(): Promise<void>
}
