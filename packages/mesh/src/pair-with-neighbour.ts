import { EGpuError, EGpuErrorCode, type AbortOptions } from '@egpu/core'
import { pairWith } from './control/pairing.ts'
import type { MeshIdentity } from './identity/identity.ts'
import type { PairedPeer } from './identity/mesh-directory.ts'
import type { Neighbour } from './peer.ts'

/**
 * Tries a code at every neighbour that waits for one. Rejects with `EGPU_PEER_NOT_TRUSTED` when none of them takes it, and with
 * `EGPU_PEER_LOST` when nobody waits.
 */
export async function pairWithNeighbour(
  self: { readonly identity: MeshIdentity; readonly name: string },
  neighbours: readonly Neighbour[],
  code: string,
  options: AbortOptions,
): Promise<PairedPeer> {
  const waiting = neighbours.filter(({ pairing }) => pairing)
  if (waiting.length === 0)
    throw new EGpuError(
      EGpuErrorCode.PeerLost,
      'no host on the cables waits for a pairing; run egpu mesh pair there first',
    )
  const refusals: string[] = []
  for (const { address, port } of waiting) {
    try {
      return await pairWith(self, { host: address, port, code }, options)
    } catch (error) {
      if (!EGpuError.is(error)) throw error
      refusals.push(`${address}: ${error.message}`)
    }
  }
  throw new EGpuError(EGpuErrorCode.PeerNotTrusted, `no pairing\n  ${refusals.join('\n  ')}`)
}
