import type { AbortOptions } from '@egpu/core'

/** Which host may run something, and by which right. */
export interface Ownership {
  /** What is owned: the id of a workload. */
  readonly resource: string
  /** Node id of the host. */
  readonly owner: string
  /**
   * The fencing token. Rises each time the resource changes hands and is never used twice for it; whoever shows a lower
   * one than was seen before no longer owns the resource, whatever it believes.
   */
  readonly token: number
}

/** An ownership of this host, as of the last word of the coordinator. */
export interface Tenure extends Ownership {
  /**
   * `clock.now()` up to which this host may act without hearing from the coordinator again, measured from before the call
   * that said so. `Infinity` where nobody is ever promoted without the owner's word.
   */
  readonly validUntilMs: number
}

/** What a coordinator knows of a resource. */
export type OwnershipState =
  /** Nobody owns it; `lastToken` is 0 when nobody ever did. */
  | { readonly kind: 'free'; readonly lastToken: number }
  | { readonly kind: 'owned'; readonly ownership: Ownership }
  /** Its owner cannot be reached, and nobody may take over without a person's word; `reason` says why and what to do. */
  | { readonly kind: 'orphaned'; readonly ownership: Ownership; readonly reason: string }

/** Whether work of a host that died is taken over by another one without a person. */
export type Promotion =
  | { readonly automatic: true; readonly leaseMs: number }
  | { readonly automatic: false; readonly reason: string }

export interface AcquireOptions extends AbortOptions {
  /**
   * A person says that the present owner is dead and will not come back by itself. Wrong, and two hosts run the same
   * work until they hear of each other; the tokens then decide.
   */
  readonly ownerIsDead?: boolean | undefined
}

/**
 * Decides who owns what. Made for one host, whose name it acts in. Implementers: tokens only rise, and survive restarts; after
 * `acquire` or `renew` resolved, nobody else acquires before `validUntilMs` or the owner's `transfer` or `revoke`;
 * `validUntilMs` is reckoned from a monotonic clock read before the request went out; a call that fails changes
 * nothing that the caller may rely on.
 */
export interface Coordinator extends AsyncDisposable {
  /** For messages: `embedded`, `etcd`. */
  readonly name: string
  /** Node id of the host it acts for. */
  readonly self: string
  readonly promotion: Promotion
  /**
   * Makes this host the owner, with a new token. Rejects with `EGPU_NOT_OWNER`, saying who is, while somebody else is or
   * may be.
   */
  acquire(resource: string, options?: AcquireOptions): Promise<Tenure>
  /** Extends a tenure. Rejects with `EGPU_STALE_EPOCH` when it is over, with another error when that is not known. */
  renew(tenure: Tenure, options?: AbortOptions): Promise<Tenure>
  /**
   * Gives the resource to another host, which has to `acquire` it. The tenure ends with the call, also when it fails without
   * an answer. Rejects with `EGPU_STALE_EPOCH` when it was over already. Resolves to the ownership that `to` has now.
   */
  transfer(tenure: Tenure, to: string, options?: AbortOptions): Promise<Ownership>
  /** Gives the resource up. Resolves also when the tenure was over already. */
  revoke(tenure: Tenure, options?: AbortOptions): Promise<void>
  /** The state now and after every change. Ends without throwing when `signal` aborts. */
  watch(resource: string, options: { readonly signal: AbortSignal }): AsyncIterable<OwnershipState>
  /** Calling it twice is fine. Tenures run out by themselves. */
  close(): Promise<void>
}
