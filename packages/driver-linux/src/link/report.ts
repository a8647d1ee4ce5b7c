import { linkReport } from '@egpu/core'
import type { LinkReport } from '@egpu/core'
import type { JoinedGpu } from '../enclosure/join-all.ts'
import type { Topology } from '../topology/types.ts'
import { narrowestTrained, stickerOf } from './cable.ts'
import { hopsTo } from './hops.ts'

/** What connects a GPU. `undefined` for GPUs on the root bus, which have no link. */
export function linkOf(topology: Topology, { gpu, tunnel, join }: JoinedGpu): LinkReport | undefined {
  const hops = hopsTo(topology, gpu, tunnel)
  if (hops.length === 0) return undefined
  const { router } = join
  return linkReport({
    hops,
    sticker: router === undefined ? undefined : stickerOf(topology, router),
    trained: router === undefined ? undefined : narrowestTrained(topology, router),
  })
}
