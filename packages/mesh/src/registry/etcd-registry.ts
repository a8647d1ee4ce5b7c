import { systemClock } from '@egpu/core'
import { assertOptions, etcdOptions } from '../arguments.ts'
import { defaultLeaseSeconds } from '../ownership/cluster-coordinator.ts'
import { EtcdClient } from '../ownership/etcd-client.ts'
import type { EtcdCoordinatorOptions } from '../ownership/etcd-coordinator.ts'
import { ClusterRegistry } from './cluster-registry.ts'
import type { HostRegistry } from './host-registry.ts'

/**
 * The hosts and their targets in an etcd cluster of the user's: takes what `etcdCoordinator` takes. `announce` it again
 * whenever the targets change.
 */
export function etcdRegistry(options: EtcdCoordinatorOptions): HostRegistry {
  assertOptions('the options of an etcd registry', options, etcdOptions)
  const { self, leaseSeconds = defaultLeaseSeconds, clock = systemClock } = options
  return new ClusterRegistry(new EtcdClient(options, leaseSeconds * 1_000), { self, leaseSeconds, clock })
}
