import { Readable } from 'node:stream'
import { temporaryIdentity } from '@egpu/mesh'
import type { RemoteRun } from '@egpu/mesh'
import type { CountPrimes } from '../../survive-unplug/src/count-primes.ts'
import { openHost } from './host.ts'
import type { Say } from './host.ts'
import { obey } from './obey.ts'

/** Counts primes on the eGPU of host a, pulls its cable, and goes on at host b. Resolves to the count. */
export async function twoHosts(upTo: number, say: Say): Promise<number> {
  const [keyA, keyB] = [temporaryIdentity(), temporaryIdentity()]
  const trust = { isPaired: (id: string) => id === keyA.nodeId || id === keyB.nodeId, port: 0 }
  await using a = await openHost({ ...trust, identity: keyA, name: 'a', settleMs: 0 }, upTo)
  const staticPeers = [`127.0.0.1:${a.mesh.port}`]
  await using b = await openHost({ ...trust, identity: keyB, name: 'b', staticPeers }, upTo)
  if (a.mesh.activePeerCount === 0) await a.mesh.next('peer-connected')
  const arrived = new Promise<RemoteRun>((resolve) => b.remote.onRun(resolve))
  await obey(b, Readable.from([]), say)
  await obey(a, Readable.from(['begin', 'pull', 'move']), say)
  const there = await arrived
  await there.ended
  return (there.workload as CountPrimes).count
}
