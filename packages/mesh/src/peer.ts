import type { ComputeTarget, ThunderboltSpeed, TrainedLanes } from '@egpu/core'
import { linkGbps } from './links/cable-link.ts'

/** What was measured on a link, apart from what is printed on it or was trained. Absent until it was measured. */
export interface LinkMeasurement {
  /**
   * Shortest round trip of the last half minute, in microseconds: TCP without delay, less what this process takes for a round
   * trip to itself over loopback.
   */
  readonly latencyUs?: number | undefined
  /** Middle of the last window, less the middle of those to itself. */
  readonly latencyP50Us?: number | undefined
  readonly receiveGbps?: number | undefined
  readonly transmitGbps?: number | undefined
}

/** One way to a peer that works now: a cable, or a network. */
export interface MeshLink {
  /** A cable has the same id at both ends. */
  readonly id: string
  readonly kind: 'thunderbolt' | 'network'
  readonly interfaceName: string | undefined
  /** To dial, with its zone. */
  readonly address: string
  readonly localAddress: string
  /** Where the cable is plugged in here. */
  readonly port: string | undefined
  readonly sticker: ThunderboltSpeed | undefined
  readonly trained:
    | { readonly receive: TrainedLanes | undefined; readonly transmit: TrainedLanes | undefined }
    | undefined
  readonly measured: LinkMeasurement
  readonly mtu: number | undefined
  readonly remoteMtu: number | undefined
}

/** A paired host that can be reached now. */
export interface MeshPeer {
  /** Fingerprint of its key. */
  readonly id: string
  /** As it calls itself over the authenticated connection; it may change, `id` does not. */
  readonly hostname: string
  /** Best first: cables before networks, then by latency. */
  readonly links: readonly MeshLink[]
  /** What it offers to run work on. What it says of their capacity is its own word. */
  readonly targets: readonly ComputeTarget[]
}

/** A host that was heard of on a cable and is not paired: a claim, nothing of it is proved. */
export interface Neighbour {
  readonly id: string
  readonly address: string
  readonly interfaceName: string
  readonly port: number
  /** Whether somebody there waits for a pairing. */
  readonly pairing: boolean
}

export const peerPurposes = ['latency', 'bandwidth', 'memory'] as const
export type PeerPurpose = (typeof peerPurposes)[number]

export interface BestPeer {
  readonly peerId: string
  readonly hostname: string
  readonly latencyUs: number | undefined
  /** Slower direction, measured where it was, else trained. */
  readonly bandwidthGbps: number | undefined
  /** The most memory one of its targets offers. */
  readonly memoryBytes: number | undefined
  readonly address: string
  readonly interfaceName: string | undefined
  readonly linkId: string
}

/** What the cables to these peers carry together: as trained, in the slower direction of each, else as measured. */
export function bandwidthGbps(peers: readonly MeshPeer[]): number {
  const links = peers.flatMap((peer) => peer.links).filter(({ kind }) => kind === 'thunderbolt')
  return links.reduce((sum, { trained, measured }) => {
    const { receiveGbps = 0, transmitGbps = 0 } = measured
    return sum + ((trained === undefined ? undefined : linkGbps({ trained })) ?? Math.min(receiveGbps, transmitGbps))
  }, 0)
}
