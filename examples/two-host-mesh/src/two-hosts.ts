import { EGpuManager } from '@egpu/core'
import { simDriver } from '@egpu/driver-sim'
import type { SimDriver } from '@egpu/driver-sim'
import { embeddedCoordinator, RemoteMigrator, temporaryIdentity, ThunderboltMesh } from '@egpu/mesh'
import type { MeshIdentity, RemoteRun } from '@egpu/mesh'
import { memoryStore } from '@egpu/migrator'
import { CountPrimes } from '../../survive-unplug/src/count-primes.ts'

interface Host extends AsyncDisposable {
  readonly mesh: ThunderboltMesh
  readonly remote: RemoteMigrator
}

/** What each of two machines runs; here both are this process, joined by loopback instead of a cable. */
async function host(
  name: string,
  driver: SimDriver,
  keys: readonly MeshIdentity[],
  dial: readonly string[],
  upTo: number,
): Promise<Host> {
  const [identity, peer] = keys
  const isPaired = (peerId: string): boolean => peerId === peer?.nodeId
  const mesh = await ThunderboltMesh.discover({
    identity,
    isPaired,
    name,
    hostTag: name,
    staticPeers: dial,
    settleMs: 0,
  })
  const manager = await EGpuManager.create({ drivers: [driver] })
  await manager.startMonitoring()
  const coordinator = await embeddedCoordinator({ peers: mesh.control })
  const kinds = { primes: (): CountPrimes => new CountPrimes(upTo) }
  const migration = { cpu: false, checkpointIntervalMs: 200 } as const
  const remote = await RemoteMigrator.open({
    peers: mesh.control,
    manager,
    coordinator,
    store: memoryStore(),
    kinds,
    migration,
  })
  const close = async (): Promise<void> => {
    for (const each of [remote, coordinator, manager, mesh]) await each.close()
  }
  return { mesh, remote, [Symbol.asyncDispose]: close }
}

/** Counts primes on the eGPU of host A, pulls its cable, and goes on at host B. Resolves to the count. */
export async function twoHosts(upTo: number, say: (line: string) => void): Promise<number> {
  const [keyA, keyB] = [temporaryIdentity(), temporaryIdentity()]
  const box = simDriver({ enclosures: [{ name: 'Core X V2', plugged: true, gpus: [{ name: 'eGPU of A' }] }] })
  await using a = await host('a', box, [keyA, keyB], [], upTo)
  await using b = await host(
    'b',
    simDriver({ gpus: [{ name: 'GPU of B' }] }),
    [keyB, keyA],
    [`127.0.0.1:${a.mesh.port}`],
    upTo,
  )
  while (a.mesh.control.connections().length === 0) await new Promise((resolve) => setTimeout(resolve, 10))
  const arrived = new Promise<RemoteRun>((resolve) => b.remote.onRun(resolve))
  const run = await a.remote.run('primes', 'count-primes')
  say(`begins on ${(await run.run.started).name}`)
  await run.run.checkpoint()
  box.machine.enclosures[0]?.yank()
  await run.moveToPeer(b.mesh.nodeId)
  const there = await arrived
  say(`goes on at ${(await there.run.started).name}`)
  await there.ended
  return (there.workload as CountPrimes).count
}
