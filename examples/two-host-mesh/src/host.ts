import { EGpuManager } from '@egpu/core'
import { simDriver } from '@egpu/driver-sim'
import type { SimDriver } from '@egpu/driver-sim'
import { embeddedCoordinator, etcdCoordinator, RemoteMigrator, ThunderboltMesh } from '@egpu/mesh'
import type { MeshOptions } from '@egpu/mesh'
import { memoryStore } from '@egpu/migrator'
import { CountPrimes } from '../../survive-unplug/src/count-primes.ts'

export type Say = (line: string) => void

export interface Host extends AsyncDisposable {
  readonly mesh: ThunderboltMesh
  readonly remote: RemoteMigrator
  readonly eGpu: SimDriver
}

/** A host in the mesh with one eGPU, to whom its peers may hand work that counts primes. Without etcd nobody takes over alone. */
export async function openHost(options: MeshOptions, upTo: number, etcd?: readonly string[]): Promise<Host> {
  const mesh = await ThunderboltMesh.discover(options)
  const eGpu = simDriver({ enclosures: [{ name: 'box', plugged: true, gpus: [{ name: `eGPU of ${mesh.hostname}` }] }] })
  const manager = await EGpuManager.create({ drivers: [eGpu] })
  await manager.startMonitoring()
  mesh.offer(await manager.targets())
  const coordinator = etcd
    ? etcdCoordinator({ hosts: etcd, self: mesh.nodeId })
    : await embeddedCoordinator({ peers: mesh.control })
  const remote = await RemoteMigrator.open({
    peers: mesh.control,
    manager,
    coordinator,
    store: memoryStore(),
    kinds: { primes: () => new CountPrimes(upTo) },
    migration: { cpu: false, checkpointIntervalMs: 200 },
  })
  const close = async (): Promise<void> => {
    for (const each of [remote, coordinator, manager, mesh]) await each.close()
  }
  return { mesh, remote, eGpu, [Symbol.asyncDispose]: close }
}
