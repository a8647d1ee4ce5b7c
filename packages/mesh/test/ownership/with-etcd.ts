import { systemClock } from '@egpu/core'
import { etcdCoordinator } from '../../src/ownership/etcd-coordinator.ts'
import { Holding } from '../../src/ownership/holding.ts'
import type { Coordinator } from '../../src/ownership/coordinator.ts'
import { EtcdCluster } from '../helpers/etcd.ts'

export interface EtcdRig {
  readonly etcd: EtcdCluster
  readonly coordinator: (self: string) => Coordinator
  readonly hold: (coordinator: Coordinator, resource: string) => Promise<Holding>
}

const leaseSeconds = 2

/** A real etcd of three members on loopback ports, reached from this process. */
export async function withEtcd(work: (rig: EtcdRig) => Promise<void>): Promise<void> {
  await using etcd = await EtcdCluster.onLoopback()
  const open: AsyncDisposable[] = []
  try {
    await work({
      etcd,
      coordinator: (self) => {
        const made = etcdCoordinator({ hosts: etcd.endpoints, self, leaseSeconds })
        open.push(made)
        return made
      },
      hold: async (coordinator, resource) => {
        const holding = new Holding(coordinator, await coordinator.acquire(resource), systemClock)
        open.push(holding)
        return holding
      },
    })
  } finally {
    for (const each of open.reverse()) await each[Symbol.asyncDispose]()
  }
}
