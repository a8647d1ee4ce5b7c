import type { AbortOptions, ComputeTarget } from '@egpu/core'

/** A host as it stands in a registry: its own word. */
export interface RegisteredHost {
  readonly nodeId: string
  readonly hostname: string
  readonly targets: readonly ComputeTarget[]
}

/** Which hosts there are and what they offer, beyond those a cable leads to. */
export interface HostRegistry extends AsyncDisposable {
  /**
   * Enters this host, replacing what it said before, and keeps it entered until `close`. A host that dies or is cut off is gone
   * after the lease.
   */
  announce(host: Omit<RegisteredHost, 'nodeId'>, options?: AbortOptions): Promise<void>
  /** Those that are there now, by node id. Entries that cannot be understood are left out. */
  hosts(options?: AbortOptions): Promise<readonly RegisteredHost[]>
  /** The hosts now and after every change; changes that come close together are told as one. Ends when `signal` aborts. */
  watch(options: { readonly signal: AbortSignal }): AsyncIterable<readonly RegisteredHost[]>
  /** Takes this host out. Calling it twice is fine. */
  close(): Promise<void>
}
