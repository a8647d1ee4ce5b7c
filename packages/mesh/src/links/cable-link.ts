import type { ThunderboltSpeed, TrainedLanes } from '@egpu/core'

/**
 * One cable to another host, as this host's operating system sees it. There is one for every host that answered on a
 * Thunderbolt port, also when no network interface came of it: `interfaceName` is then `undefined`.
 */
export interface CableLink {
  /** Where the cable is plugged in here and what is at the other end. Survives renames and new MAC addresses. */
  readonly key: string
  /** As the operating system names the port: `domain0/port3`, `receptacle 2`. */
  readonly port: string
  /** UUID of this host's controller. macOS has one per port, Linux one per controller. */
  readonly localUuid: string | undefined
  /** UUID of the other host's controller: says which cable this is, not whom to trust. */
  readonly remoteUuid: string | undefined
  /**
   * What the other host called itself when the cable first connected. Linux freezes it there, so a renamed host keeps its old
   * name here until its thunderbolt module is loaded again: show a peer's own name instead once it is known.
   */
  readonly remoteName: string | undefined
  /** Routers between the two hosts: 0 for a plain cable, 1 behind a hub or dock. */
  readonly hubs: number | undefined
  readonly interfaceName: string | undefined
  readonly mtu: number | undefined
  /** Label this host's controller could claim. */
  readonly sticker: ThunderboltSpeed | undefined
  /** What the cable trained to, which a different port or dock changes. */
  readonly trained: { readonly receive: TrainedLanes | undefined; readonly transmit: TrainedLanes | undefined }
  /** What the other host says about Thunderbolt networking; `undefined` when it does not offer it. */
  readonly networkService: { readonly e2e: boolean } | undefined
}

/** Everything about Thunderbolt networking on this host at one moment. */
export interface CableInventory {
  readonly links: readonly CableLink[]
  /** Two of this host's own ports are joined by a cable: nothing can be reached over it. */
  readonly loops: readonly { readonly port: string; readonly uuid: string }[]
  /** Whether this host uses end-to-end flow control where the peer does too; Linux's `thunderbolt_net.e2e`. */
  readonly e2e: boolean | undefined
  /** Whether the part of the operating system that makes network interfaces is there. */
  readonly networkDriver: 'loaded' | 'missing' | undefined
}

export const emptyInventory: CableInventory = { links: [], loops: [], e2e: undefined, networkDriver: undefined }

/** What a direction of a link carries, in Gb/s. */
export function laneGbps(lanes: TrainedLanes | undefined): number | undefined {
  return lanes === undefined ? undefined : lanes.lanes * lanes.gbpsPerLane
}

/** What a link carries in its slower direction, in Gb/s; in asymmetric mode the directions differ. */
export function linkGbps({ trained }: Pick<CableLink, 'trained'>): number | undefined {
  const [receive, transmit] = [laneGbps(trained.receive), laneGbps(trained.transmit)]
  if (receive === undefined || transmit === undefined) return receive ?? transmit
  return Math.min(receive, transmit)
}
