import { EGpuError, EGpuErrorCode, type AbortOptions } from '@egpu/core'
import { digitsOf, pairWith } from './control/pairing.ts'
import type { MeshIdentity } from './identity/identity.ts'
import type { PairedPeer } from './identity/mesh-directory.ts'
import type { Neighbours } from './neighbours.ts'
import type { Neighbour } from './peer.ts'

/**
 * Tries a code at every neighbour that waits for one, once: over its other cables only where one does not reach it. Rejects
 * with `EGPU_PEER_NOT_TRUSTED` when none of them takes it, `EGPU_PEER_LOST` when nobody waits, `TypeError` for what is no code.
 */
export async function pairWithNeighbour(
  self: { readonly identity: MeshIdentity; readonly name: string },
  neighbours: readonly Neighbour[],
  code: string,
  options: AbortOptions,
): Promise<PairedPeer> {
  digitsOf(code)
  const waiting = neighbours.filter(({ pairing }) => pairing)
  if (waiting.length === 0) {
    const seen = neighbours.length === 0 ? 'no host is in sight' : 'no host in sight waits for a pairing'
    const advice = 'run `egpu mesh pair` there first, with `--lan` on both where no Thunderbolt cable joins them'
    throw new EGpuError(EGpuErrorCode.PeerLost, `${seen}: ${advice}`)
  }
  const refusals: string[] = []
  const refusedBy = new Set<string>()
  for (const { id, address, port } of waiting) {
    // It counts wrong codes, whichever cable they come over.
    if (refusedBy.has(id)) continue
    try {
      return await pairWith(self, { host: address, port, code }, options)
    } catch (error) {
      if (!EGpuError.is(error)) throw error
      if (error.code === EGpuErrorCode.PeerNotTrusted) refusedBy.add(id)
      refusals.push(`${address}: ${error.message}`)
    }
  }
  throw new EGpuError(EGpuErrorCode.PeerNotTrusted, `no pairing\n  ${refusals.join('\n  ')}`)
}

/** A host says at once that it waits for a pairing; what it said may still be on its way here. */
const patienceMs = 3_000
const lookEveryMs = 50

/** Everybody in sight, as soon as one of them waits for a pairing, or nobody did for long enough. */
export async function neighboursToPairWith(
  neighbours: Neighbours,
  { signal }: AbortOptions,
): Promise<readonly Neighbour[]> {
  const until = performance.now() + patienceMs
  while (!neighbours.all.some(({ pairing }) => pairing) && performance.now() < until) {
    signal?.throwIfAborted()
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
  }
  return neighbours.all
}
