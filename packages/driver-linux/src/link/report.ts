import { linkReport } from '@egpu/core'
import type { LinkReport } from '@egpu/core'
import type { JoinedGpu } from '../enclosure/join-all.ts'
import type { Topology } from '../topology/types.ts'
import { narrowestTrained, stickerOf } from './cable.ts'
import { hopsTo } from './hops.ts'

/**
 * What connects a GPU. `undefined` for GPUs on the root bus, which have no link. GPUs change their link speed with
 * their load, and 8 GT/s on a port for 16 is a GPU half awake as often as a bad contact: a lower speed alone is no
 * downgrade here, fewer lanes are.
 */
export function linkOf(topology: Topology, { gpu, tunnel, join }: JoinedGpu): LinkReport | undefined {
  const hops = hopsTo(topology, gpu, tunnel)
  if (hops.length === 0) return undefined
  const { router } = join
  const report = linkReport({
    hops,
    sticker: router === undefined ? undefined : stickerOf(topology, router),
    trained: router === undefined ? undefined : narrowestTrained(topology, router),
  })
  if (report.downgrade?.at === 'cable') return report
  return { ...report, downgrade: linkReport({ hops: hops.filter(isNarrow) }).downgrade }
}

function isNarrow({ kind, lanes, maxLanes }: ReturnType<typeof hopsTo>[number]): boolean {
  return kind === 'real' && lanes !== undefined && maxLanes !== undefined && lanes < maxLanes
}
