import { systemClock } from '@egpu/core'
import type { Clock } from '@egpu/core'
import { ClusterCoordinator, defaultLeaseSeconds } from './cluster-coordinator.ts'
import type { Coordinator } from './coordinator.ts'
import { EtcdClient } from './etcd-client.ts'
import type { EtcdOptions } from './etcd-client.ts'

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

/**
 * Ownership kept by an etcd cluster of the user's, which survives the death of any host as long as most of its members
 * can talk. `TypeError` for a lease that is no whole number of seconds, or without a host.
 */
export function etcdCoordinator(options: EtcdCoordinatorOptions): Coordinator {
  const { self, leaseSeconds = defaultLeaseSeconds, clock = systemClock } = options
  if (!Number.isSafeInteger(leaseSeconds) || leaseSeconds < 1) {
    throw new TypeError(`leaseSeconds must be a whole number from 1 up, not ${leaseSeconds}`)
  }
  const cluster = new EtcdClient(options, leaseSeconds * 1_000)
  return new ClusterCoordinator(cluster, { name: 'etcd', self, leaseSeconds, clock })
}
