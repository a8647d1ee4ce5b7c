import { EGpuError, EGpuErrorCode, systemClock } from '@egpu/core'
import { etcdCoordinator } from '../../src/ownership/etcd-coordinator.ts'
import { Holding } from '../../src/ownership/holding.ts'
import type { Coordinator, Tenure } from '../../src/ownership/coordinator.ts'
import { EtcdCluster } from '../helpers/etcd.ts'

export interface EtcdRig {
  readonly etcd: EtcdCluster
  /** Without `leaseSeconds` its leases outlast anything a slow machine does in a test. */
  readonly coordinator: (self: string, options?: { readonly leaseSeconds: number }) => Coordinator
  readonly hold: (coordinator: Coordinator, resource: string) => Promise<Holding>
}

/** A real etcd of three members on loopback ports, reached from this process. */
export async function withEtcd(work: (rig: EtcdRig) => Promise<void>): Promise<void> {
  await using etcd = await EtcdCluster.onLoopback()
  const open: AsyncDisposable[] = []
  try {
    await work({
      etcd,
      coordinator: (self, { leaseSeconds } = { leaseSeconds: 300 }) => {
        const made = etcdCoordinator({ hosts: etcd.endpoints, self, leaseSeconds })
        open.push(made)
        return made
      },
      hold: async (coordinator, resource) => {
        const holding = new Holding(coordinator, await acquireAtLast(coordinator, resource), systemClock)
        open.push(holding)
        return holding
      },
    })
  } finally {
    for (const each of open.reverse()) await each[Symbol.asyncDispose]()
  }
}

/** With a short lease an attempt may take longer than it is given, carried out or not: then once more. */
export async function acquireAtLast(coordinator: Coordinator, resource: string): Promise<Tenure> {
  for (;;) {
    try {
      return await coordinator.acquire(resource)
    } catch (error) {
      if (!EGpuError.is(error, EGpuErrorCode.PeerLost) && !EGpuError.is(error, EGpuErrorCode.NotOwner)) throw error
    }
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}
