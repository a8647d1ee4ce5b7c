import { ThunderboltSpeed } from '@egpu/core'
import type { LinkReport } from '@egpu/core'
import type { LaneRate, ThunderboltRouter, Topology } from '../topology/types.ts'

const labels: readonly ThunderboltSpeed[] = [
  ThunderboltSpeed.TB1,
  ThunderboltSpeed.TB2,
  ThunderboltSpeed.TB3,
  ThunderboltSpeed.TB4,
  ThunderboltSpeed.TB5,
]

/**
 * The label that the box, every box before it and the host could all claim. Linux counts USB4 of either version as
 * generation 4; only the uevent's USB4_VERSION, or 40 Gb/s on a lane, tells Thunderbolt 5.
 */
export function stickerOf(topology: Topology, router: ThunderboltRouter): ThunderboltSpeed | undefined {
  if (router.receive.gbps === 40 || router.transmit.gbps === 40) return ThunderboltSpeed.TB5
  const own = rankOf(router)
  if (own === undefined) return undefined
  const chain = [...pathTo(topology, router), ...hostOf(topology, router)]
  const ranks = chain.map(rankOf).filter((rank) => rank !== undefined)
  return labels[Math.min(own, ...ranks)]
}

function rankOf({ generation, usb4Version }: ThunderboltRouter): number | undefined {
  if (generation === undefined) return undefined
  if (generation >= 4) return usb4Version?.startsWith('2') === true ? 4 : 3
  return generation - 1
}

/** The boxes from the host to this one, this one last. */
export function pathTo(topology: Topology, router: ThunderboltRouter): readonly ThunderboltRouter[] {
  const path = [router]
  for (let name = router.parent; name !== undefined;) {
    const parent = topology.thunderbolt.routers.find((one) => one.name === name)
    if (parent === undefined || parent.isHost) break
    path.unshift(parent)
    name = parent.parent
  }
  return path
}

function hostOf(topology: Topology, { domain }: ThunderboltRouter): readonly ThunderboltRouter[] {
  return topology.thunderbolt.routers.filter((one) => one.isHost && one.domain === domain)
}

/** What a box's cable trained to. The attributes are the box's view: it receives what the host sends. */
export function trainedOf(router: ThunderboltRouter): LinkReport['trained'] {
  const toDevice = lanesOf(router.receive)
  const fromDevice = lanesOf(router.transmit)
  return toDevice === undefined && fromDevice === undefined ? undefined : { toDevice, fromDevice }
}

function lanesOf({ lanes, gbps }: LaneRate): { readonly lanes: number; readonly gbpsPerLane: number } | undefined {
  return lanes === undefined || gbps === undefined ? undefined : { lanes, gbpsPerLane: gbps }
}

/** Of all cables between the host and the box, the slowest each way. */
export function narrowestTrained(topology: Topology, router: ThunderboltRouter): LinkReport['trained'] {
  const all = pathTo(topology, router).map(trainedOf)
  const slowest = (side: 'toDevice' | 'fromDevice'): ReturnType<typeof lanesOf> => {
    const lanes = all.map((one) => one?.[side])
    if (lanes.includes(undefined)) return undefined
    return lanes.reduce((least, one) => (total(one) < total(least) ? one : least))
  }
  const toDevice = slowest('toDevice')
  const fromDevice = slowest('fromDevice')
  return toDevice === undefined && fromDevice === undefined ? undefined : { toDevice, fromDevice }
}

function total(lanes: ReturnType<typeof lanesOf>): number {
  return lanes === undefined ? 0 : lanes.lanes * lanes.gbpsPerLane
}
