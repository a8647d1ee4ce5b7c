import { EGpuManager } from '@egpu/core'
import { simDriver } from '@egpu/driver-sim'
import type { SimDriver } from '@egpu/driver-sim'
import { embeddedCoordinator, RemoteMigrator, temporaryIdentity, ThunderboltMesh } from '@egpu/mesh'
import type { RemoteRun } from '@egpu/mesh'
import { memoryStore } from '@egpu/migrator'
import { CountPrimes } from '../../survive-unplug/src/count-primes.ts'

/** What each host runs: a migrator to whom its peers may hand work that counts primes. */
async function worker(
  mesh: ThunderboltMesh,
  driver: SimDriver,
  upTo: number,
): Promise<{ remote: RemoteMigrator } & AsyncDisposable> {
  const manager = await EGpuManager.create({ drivers: [driver] })
  await manager.startMonitoring()
  const coordinator = await embeddedCoordinator({ peers: mesh.control })
  const remote = await RemoteMigrator.open({
    peers: mesh.control,
    manager,
    coordinator,
    store: memoryStore(),
    kinds: { primes: () => new CountPrimes(upTo) },
    migration: { cpu: false, checkpointIntervalMs: 200 },
  })
  const close = async (): Promise<void> => {
    for (const each of [remote, coordinator, manager]) await each.close()
  }
  return { remote, [Symbol.asyncDispose]: close }
}

/** Counts primes on the eGPU of host A, pulls its cable, and goes on at host B. Resolves to the count. */
export async function twoHosts(upTo: number, say: (line: string) => void): Promise<number> {
  const [keyA, keyB] = [temporaryIdentity(), temporaryIdentity()]
  const trust = { isPaired: (id: string) => id === keyA.nodeId || id === keyB.nodeId, port: 0 }
  await using meshA = await ThunderboltMesh.discover({ ...trust, identity: keyA, name: 'a', settleMs: 0 })
  const staticPeers = [`127.0.0.1:${meshA.port}`]
  await using meshB = await ThunderboltMesh.discover({ ...trust, identity: keyB, name: 'b', staticPeers })
  const box = simDriver({ enclosures: [{ name: 'Core X V2', plugged: true, gpus: [{ name: 'eGPU of A' }] }] })
  await using a = await worker(meshA, box, upTo)
  await using b = await worker(meshB, simDriver({ gpus: [{ name: 'GPU of B' }] }), upTo)
  if (meshA.activePeerCount === 0) await meshA.next('peer-connected')
  const arrived = new Promise<RemoteRun>((resolve) => b.remote.onRun(resolve))
  const here = await a.remote.run('primes', 'count-primes')
  say(`begins on ${(await here.run.started).name}`)
  await here.run.checkpoint()
  box.machine.enclosures[0]?.yank()
  await here.moveToPeer(meshB.nodeId)
  const there = await arrived
  say(`goes on at ${(await there.run.started).name}`)
  await there.ended
  return (there.workload as CountPrimes).count
}
