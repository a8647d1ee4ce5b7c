import { EGpuError, EGpuErrorCode, systemClock } from '@egpu/core'
import type { AbortOptions, Clock } from '@egpu/core'
import type { Coordinator, Ownership, OwnershipState, Tenure } from './coordinator.ts'
import { EtcdClient } from './etcd-client.ts'
import type { EtcdOptions } from './etcd-client.ts'
import { isSameState, states } from './watch-states.ts'

export interface EtcdCoordinatorOptions extends EtcdOptions {
  /** Node id of this host. */
  readonly self: string
  /**
   * How long a host may be silent before its work is taken over. Default 5; etcd raises it to at least 1.5 election
   * timeouts.
   */
  readonly leaseSeconds?: number | undefined
  readonly clock?: Clock | undefined
}

/** What an owner's word is good for: clocks of two machines differ by less than this, by far. */
const clockShare = 0.95

interface Record {
  readonly owner: string
  /** Given to `owner`, who has not taken it yet. */
  readonly reserved: boolean
}

interface Seen {
  readonly record: Record | undefined
  /** Revision that the record was written at; 0 when there is none. */
  readonly token: number
  /** Whether a lease stands behind it. */
  readonly isLive: boolean
}

/**
 * Ownership kept by an etcd cluster of the user's, which survives the death of any host as long as most of its members
 * can talk. Each resource has two keys: `owner/…` says who and is written once per change of hands, so that its revision
 * is the fencing token; `live/…` stands under a lease and is there as long as the owner renews.
 *
 * A renewal moves `live/…` under a new lease by compare-and-swap and never uses etcd's keep-alive: that is answered by a
 * leader that does not know yet that it is none, and such a leader revokes what it believes to have run out
 * (etcd issues 15247 and 12528). A lease that is never extended is not revoked too early by anybody.
 */
export function etcdCoordinator(options: EtcdCoordinatorOptions): Coordinator {
  return new EtcdCoordinator(options)
}

class EtcdCoordinator implements Coordinator {
  readonly name = 'etcd'
  readonly self: string
  readonly promotion: { readonly automatic: true; readonly leaseMs: number }
  readonly #client: EtcdClient
  readonly #clock: Clock
  readonly #leaseSeconds: number

  constructor(options: EtcdCoordinatorOptions) {
    const { self, leaseSeconds = 5, clock = systemClock } = options
    if (!Number.isSafeInteger(leaseSeconds) || leaseSeconds < 1) {
      throw new TypeError(`leaseSeconds must be a whole number from 1 up, not ${leaseSeconds}`)
    }
    this.self = self
    this.#clock = clock
    this.#leaseSeconds = leaseSeconds
    this.promotion = { automatic: true, leaseMs: leaseSeconds * 1_000 * clockShare }
    this.#client = new EtcdClient(options, leaseSeconds * 1_000)
  }

  async acquire(resource: string, options: AbortOptions = {}): Promise<Tenure> {
    const seen = await this.#look(resource, options)
    const isMine = seen.record?.owner === this.self && seen.record.reserved
    if (seen.isLive && !isMine) throw notOwner(resource, seen.record)
    const record: Record = { owner: this.self, reserved: false }
    const asked = this.#clock.now()
    const lease = await this.#client.lease(this.#leaseSeconds, options)
    const { ownerKey, liveKey } = this.#keys(resource)
    const result = await this.#client.call(
      (etcd) =>
        etcd
          .if(ownerKey, 'Mod', '==', seen.token)
          .and(liveKey, 'Version', seen.isLive ? '!=' : '==', 0)
          .then(etcd.put(ownerKey).value(JSON.stringify(record)), etcd.put(liveKey).value(this.self).lease(lease.id))
          .commit(),
      options,
    )
    const validUntilMs = asked + lease.ttlMs * clockShare
    if (result.succeeded) {
      return { resource, owner: this.self, token: Number(result.header.revision), validUntilMs }
    }
    throw notOwner(resource, (await this.#look(resource, options)).record)
  }

  async renew(tenure: Tenure, options: AbortOptions = {}): Promise<Tenure> {
    const { ownerKey, liveKey } = this.#keys(tenure.resource)
    const asked = this.#clock.now()
    const lease = await this.#client.lease(this.#leaseSeconds, options)
    const { succeeded } = await this.#client.call(
      (etcd) =>
        etcd
          .if(ownerKey, 'Mod', '==', tenure.token)
          .and(liveKey, 'Version', '!=', 0)
          .then(etcd.put(liveKey).value(this.self).lease(lease.id))
          .commit(),
      options,
    )
    if (!succeeded) throw stale(tenure)
    return { ...tenure, validUntilMs: asked + lease.ttlMs * clockShare }
  }

  async transfer(tenure: Tenure, to: string, options: AbortOptions = {}): Promise<Ownership> {
    const { ownerKey, liveKey } = this.#keys(tenure.resource)
    const record: Record = { owner: to, reserved: true }
    const lease = await this.#client.lease(this.#leaseSeconds, options)
    const result = await this.#client.call(
      (etcd) =>
        etcd
          .if(ownerKey, 'Mod', '==', tenure.token)
          .and(liveKey, 'Version', '!=', 0)
          .then(etcd.put(ownerKey).value(JSON.stringify(record)), etcd.put(liveKey).value(to).lease(lease.id))
          .commit(),
      options,
    )
    if (!result.succeeded) throw stale(tenure)
    return { resource: tenure.resource, owner: to, token: Number(result.header.revision) }
  }

  async revoke(tenure: Tenure, options: AbortOptions = {}): Promise<void> {
    const { ownerKey, liveKey } = this.#keys(tenure.resource)
    await this.#client.call(
      (etcd) => etcd.if(ownerKey, 'Mod', '==', tenure.token).then(etcd.delete().key(liveKey)).commit(),
      options,
    )
  }

  async *watch(resource: string, { signal }: { readonly signal: AbortSignal }): AsyncIterable<OwnershipState> {
    const { ownerKey, liveKey } = this.#keys(resource)
    const look = async (): Promise<OwnershipState> => {
      const { record, token, isLive } = await this.#look(resource, { signal })
      if (record === undefined || !isLive) return { kind: 'free', lastToken: token }
      return { kind: 'owned', ownership: { resource, owner: record.owner, token } }
    }
    const subscribe = async (changed: () => void): Promise<void> => {
      for (const key of [ownerKey, liveKey]) await this.#client.watch(key, changed, signal)
    }
    yield* states({ look, subscribe, isSame: isSameState, everyMs: this.promotion.leaseMs, clock: this.#clock, signal })
  }

  close(): Promise<void> {
    return this.#client.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** What most of the members agree on now. */
  async #look(resource: string, options: AbortOptions): Promise<Seen> {
    const { ownerKey, liveKey } = this.#keys(resource)
    // One transaction, so that both keys are of one moment.
    const { responses } = await this.#client.call(
      (etcd) => etcd.if(ownerKey, 'Version', '>', -1).then(etcd.get(ownerKey), etcd.get(liveKey)).commit(),
      options,
    )
    const [owner, live] = responses.map((response) => response.response_range.kvs[0])
    return {
      record: owner === undefined ? undefined : readRecord(resource, owner.value),
      token: Number(owner?.mod_revision ?? 0),
      isLive: live !== undefined,
    }
  }

  #keys(resource: string): { readonly ownerKey: string; readonly liveKey: string } {
    const { prefix } = this.#client
    // A final slash, so that no resource's key begins another's.
    const name = `${encodeURIComponent(resource)}/`
    return { ownerKey: `${prefix}owner/${name}`, liveKey: `${prefix}live/${name}` }
  }
}

function readRecord(resource: string, bytes: Buffer): Record {
  try {
    const { owner, reserved } = JSON.parse(bytes.toString('utf8')) as Partial<Record>
    if (typeof owner === 'string' && typeof reserved === 'boolean') {
      return { owner, reserved }
    }
  } catch {
    // Said below.
  }
  throw new EGpuError(EGpuErrorCode.MalformedData, `what etcd holds about the owner of ${resource} cannot be read`)
}

function notOwner(resource: string, record: Record | undefined): EGpuError {
  const who = record?.owner ?? 'another host'
  const message = `${who} owns ${resource}; it is free once that host gives it up or its lease runs out`
  return new EGpuError(EGpuErrorCode.NotOwner, message)
}

function stale({ resource, token }: Tenure): EGpuError {
  return new EGpuError(EGpuErrorCode.StaleEpoch, `token ${token} for ${resource} is stale: the lease ran out`)
}
