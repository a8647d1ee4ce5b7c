import { randomUUID } from 'node:crypto'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, Clock } from '@egpu/core'
import type { Cluster, Entry } from './cluster.ts'
import type { Coordinator, Ownership, OwnershipState, Tenure } from './coordinator.ts'
import { isNodeId } from './ownership-book.ts'
import { isSameState, states } from './watch-states.ts'

export interface ClusterCoordinatorOptions {
  readonly name: string
  readonly self: string
  readonly leaseSeconds: number
  readonly clock: Clock
}

export const defaultLeaseSeconds = 5

/** Of a lease, what its holder counts on: clocks of two machines differ by less than the rest, by far. */
const clockShare = 0.95

/** Of a lease: how often a resource is looked at that is watched, since a watch may go silent. */
const lookShare = 1 / 5
const leastLookMs = 200

/** What stands under `owner/…`. */
interface OwnerRecord {
  readonly owner: string
  /** Given to `owner`, who has not taken it yet. */
  readonly reserved: boolean
  /** Of one `acquire`: tells one that was carried out, although its answer was lost, from another one's. */
  readonly claim: string
}

interface Seen {
  readonly record: OwnerRecord | undefined
  /** Revision that the record was written at; 0 when there is none. */
  readonly token: number
  /** Revision of the last renewal; 0 when no lease stands behind it. */
  readonly liveRevision: number
  /** Whether its owner may still act. */
  readonly isLive: boolean
}

/** A renewal, as it was first seen here. */
interface Sighting {
  readonly revision: number
  readonly sinceMs: number
  readonly ttlMs: number
}

/**
 * Ownership by leases in a cluster. Each resource has two keys: `owner/…` says who and is written once per change of hands, so
 * that its revision is the fencing token; `live/…` is written by each renewal, under a lease of its own, and holds how
 * long that is good for.
 *
 * A renewal moves `live/…` under a new lease by compare-and-swap and never uses etcd's keep-alive: that is answered by a
 * leader that does not know yet that it is none, and such a leader revokes what it believes to have run out
 * (etcd issues 15247 and 12528). A lease that is never extended is not revoked too early by anybody. It may be revoked too
 * late: each new leader begins all leases anew. So a host that has watched one renewal for as long as it was good for
 * takes over without waiting for etcd; the owner has counted from an earlier moment, and has stopped.
 *
 * Every write names the revision of what it replaces: one that was given up and arrives late, from a member that had been
 * stopped, changes nothing any more.
 */
export class ClusterCoordinator implements Coordinator {
  readonly name: string
  readonly self: string
  readonly promotion: { readonly automatic: true; readonly leaseMs: number }
  readonly #cluster: Cluster
  readonly #clock: Clock
  readonly #leaseSeconds: number
  readonly #sightings = new Map<string, Sighting>()
  /** This host's last attempt to acquire a resource, if nobody said how it ended. */
  readonly #unanswered = new Map<string, { readonly claim: string; readonly validUntilMs: number }>()
  /** Revision of this host's own last renewal, by resource. */
  readonly #renewals = new Map<string, number>()

  constructor(cluster: Cluster, { name, self, leaseSeconds, clock }: ClusterCoordinatorOptions) {
    this.name = name
    this.self = self
    this.#cluster = cluster
    this.#clock = clock
    this.#leaseSeconds = leaseSeconds
    this.promotion = { automatic: true, leaseMs: leaseSeconds * 1_000 * clockShare }
  }

  async acquire(resource: string, options: AbortOptions = {}): Promise<Tenure> {
    const seen = await this.#look(resource, options)
    const lost = this.#unanswered.get(resource)
    if (seen.isLive && lost !== undefined && lost.claim === seen.record?.claim) {
      return this.renew({ resource, owner: this.self, token: seen.token, validUntilMs: lost.validUntilMs }, options)
    }
    const isMine = seen.record?.owner === this.self && seen.record.reserved
    if (seen.isLive && !isMine) throw notOwner(resource, seen.record)
    const claim = randomUUID()
    const asked = this.#clock.now()
    const { ownerKey, liveKey } = keysOf(resource)
    const lease = await this.#cluster.lease(this.#leaseSeconds, options)
    const validUntilMs = asked + lease.ttlMs * clockShare
    this.#unanswered.set(resource, { claim, validUntilMs })
    const { succeeded, revision, entries } = await this.#cluster.transact(
      {
        when: { [ownerKey]: seen.token, [liveKey]: seen.liveRevision },
        put: [
          { key: ownerKey, value: JSON.stringify({ owner: this.self, reserved: false, claim } satisfies OwnerRecord) },
          { key: liveKey, value: String(lease.ttlMs), leaseId: lease.id },
        ],
        read: [ownerKey, liveKey],
      },
      options,
    )
    this.#unanswered.delete(resource)
    const now = this.#note(resource, entries)
    const isDone = succeeded || (now.record?.claim === claim && now.isLive)
    if (!isDone) throw notOwner(resource, now.record)
    const token = succeeded ? revision : now.token
    this.#renewals.set(resource, token)
    return { resource, owner: this.self, token, validUntilMs }
  }

  async renew(tenure: Tenure, options: AbortOptions = {}): Promise<Tenure> {
    const { resource, token } = tenure
    const { ownerKey, liveKey } = keysOf(resource)
    const asked = this.#clock.now()
    // Another host may count on it already, although the cluster still knows the lease.
    if (asked >= tenure.validUntilMs) throw this.#stale(tenure)
    const lease = await this.#cluster.lease(this.#leaseSeconds, options)
    for (;;) {
      const renewal = this.#renewals.get(resource) ?? token
      const { succeeded, revision, entries } = await this.#cluster.transact(
        {
          when: { [ownerKey]: token, [liveKey]: renewal },
          put: [{ key: liveKey, value: String(lease.ttlMs), leaseId: lease.id }],
          read: [ownerKey, liveKey],
        },
        options,
      )
      const now = this.#note(resource, entries)
      // In a cluster that was restored from a backup another host's record can be of the same revision.
      const isAnothers = now.record !== undefined && (now.record.owner !== this.self || now.record.reserved)
      if (isAnothers || (!succeeded && (now.token !== token || now.liveRevision === 0))) throw this.#stale(tenure)
      this.#renewals.set(resource, succeeded ? revision : now.liveRevision)
      if (succeeded) return { ...tenure, validUntilMs: asked + lease.ttlMs * clockShare }
      // An earlier renewal was carried out, and its answer lost: this one comes after it.
    }
  }

  async transfer(tenure: Tenure, to: string, options: AbortOptions = {}): Promise<Ownership> {
    const { resource, token } = tenure
    const { ownerKey, liveKey } = keysOf(resource)
    const claim = randomUUID()
    const lease = await this.#cluster.lease(this.#leaseSeconds, options)
    for (;;) {
      const { succeeded, revision, entries } = await this.#cluster.transact(
        {
          when: { [ownerKey]: token, [liveKey]: this.#renewals.get(resource) ?? token },
          put: [
            { key: ownerKey, value: JSON.stringify({ owner: to, reserved: true, claim } satisfies OwnerRecord) },
            { key: liveKey, value: String(lease.ttlMs), leaseId: lease.id },
          ],
          read: [ownerKey, liveKey],
        },
        options,
      )
      if (succeeded) return { resource, owner: to, token: revision }
      const now = this.#note(resource, entries)
      if (now.record?.claim === claim) return { resource, owner: to, token: now.token }
      if (now.token !== token || now.liveRevision === 0) throw this.#stale(tenure)
      this.#renewals.set(resource, now.liveRevision)
    }
  }

  async revoke({ resource, token }: Tenure, options: AbortOptions = {}): Promise<void> {
    const { ownerKey, liveKey } = keysOf(resource)
    await this.#cluster.transact({ when: { [ownerKey]: token }, remove: [liveKey] }, options)
    this.#renewals.delete(resource)
  }

  async *watch(resource: string, { signal }: { readonly signal: AbortSignal }): AsyncIterable<OwnershipState> {
    const { ownerKey, liveKey } = keysOf(resource)
    const look = async (): Promise<OwnershipState> => {
      const { record, token, isLive } = await this.#look(resource, { signal })
      if (record === undefined || !isLive) return { kind: 'free', lastToken: token }
      return { kind: 'owned', ownership: { resource, owner: record.owner, token } }
    }
    const subscribe = (changed: () => void): void => {
      for (const key of [ownerKey, liveKey]) this.#cluster.watch(key, changed, signal)
    }
    const waitMs = (): number => this.#lookAgainMs(resource)
    yield* states({ look, subscribe, isSame: isSameState, waitMs, clock: this.#clock, signal })
  }

  close(): Promise<void> {
    return this.#cluster.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #stale({ resource, token }: Tenure): EGpuError {
    this.#renewals.delete(resource)
    return new EGpuError(EGpuErrorCode.StaleEpoch, `token ${token} for ${resource} is stale: the lease ran out`)
  }

  /** What most of the members agree on now. */
  async #look(resource: string, options: AbortOptions): Promise<Seen> {
    const { ownerKey, liveKey } = keysOf(resource)
    // One transaction, so that both keys are of one moment.
    const { entries } = await this.#cluster.transact({ when: {}, read: [ownerKey, liveKey] }, options)
    return this.#note(resource, entries)
  }

  /** To be called as soon as an answer is there: a renewal is at least as old as the moment it is first seen. */
  #note(resource: string, entries: ReadonlyMap<string, Entry>): Seen {
    const { ownerKey, liveKey } = keysOf(resource)
    const [owner, live] = [entries.get(ownerKey), entries.get(liveKey)]
    if (live === undefined) this.#sightings.delete(resource)
    return {
      record: owner === undefined ? undefined : readRecord(resource, owner.value),
      token: owner?.revision ?? 0,
      liveRevision: live?.revision ?? 0,
      isLive: live !== undefined && this.#leftMs(resource, live) > 0,
    }
  }

  /** How long the owner may count on its last renewal, at most. */
  #leftMs(resource: string, { revision, value }: Entry): number {
    const now = this.#clock.now()
    const known = this.#sightings.get(resource)
    const sighting = known?.revision === revision ? known : { revision, sinceMs: now, ttlMs: readTtl(resource, value) }
    this.#sightings.set(resource, sighting)
    return sighting.sinceMs + sighting.ttlMs - now
  }

  /** After a while, and right when the owner's time is up. */
  #lookAgainMs(resource: string): number {
    const sighting = this.#sightings.get(resource)
    const whileMs = Math.max(leastLookMs, this.promotion.leaseMs * lookShare)
    const leftMs = sighting === undefined ? 0 : sighting.sinceMs + sighting.ttlMs - this.#clock.now()
    return leftMs > 0 ? Math.min(whileMs, leftMs) : whileMs
  }
}

function keysOf(resource: string): { readonly ownerKey: string; readonly liveKey: string } {
  // A final slash, so that no resource's key begins another's.
  const name = `${encodeURIComponent(resource)}/`
  return { ownerKey: `owner/${name}`, liveKey: `live/${name}` }
}

function readRecord(resource: string, text: string): OwnerRecord {
  try {
    const { owner, reserved, claim } = JSON.parse(text) as Partial<OwnerRecord>
    if (isNodeId(owner) && typeof reserved === 'boolean' && typeof claim === 'string') return { owner, reserved, claim }
  } catch {
    // Said below.
  }
  throw unreadable(resource)
}

function readTtl(resource: string, text: string): number {
  const ttlMs = Number(text)
  if (Number.isSafeInteger(ttlMs) && ttlMs > 0) return ttlMs
  throw unreadable(resource)
}

function unreadable(resource: string): EGpuError {
  return new EGpuError(
    EGpuErrorCode.MalformedData,
    `what the cluster holds about the owner of ${resource} cannot be read; another version or program wrote it`,
  )
}

function notOwner(resource: string, record: OwnerRecord | undefined): EGpuError {
  const who = record?.owner ?? 'another host'
  const message = `${who} owns ${resource}; it is free once that host gives it up or its lease runs out`
  return new EGpuError(EGpuErrorCode.NotOwner, message)
}
