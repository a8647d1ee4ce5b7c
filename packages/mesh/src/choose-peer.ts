import { linkGbps } from './links/cable-link.ts'
import type { BestPeer, MeshLink, MeshPeer, PeerPurpose } from './peer.ts'

/**
 * A challenger must be better by a twentieth, at least by 10 µs and at most by 25. Half of the 50 µs that are always to be told
 * apart: the other half is for what the shortest round trips of half a minute are off by.
 */
const latencyMargin = { share: 0.05, leastUs: 10, mostUs: 25 } as const
const bandwidthMargin = 0.1

/** What a link carries in its slower direction: measured where it was, else what it trained to. */
export function bandwidthOf({ measured, trained }: MeshLink): number | undefined {
  const { receiveGbps, transmitGbps } = measured
  if (receiveGbps !== undefined && transmitGbps !== undefined) return Math.min(receiveGbps, transmitGbps)
  return trained === undefined ? undefined : linkGbps({ trained })
}

/**
 * The best link of the best peer. A cable always goes before a network; what is not known comes last. `incumbent` keeps
 * its place unless it is beaten by more than the noise, so that the answer does not flip with every measurement.
 */
export function choosePeer(
  peers: readonly MeshPeer[],
  purpose: PeerPurpose,
  incumbent?: BestPeer,
): BestPeer | undefined {
  const candidates = peers.flatMap((peer) => peer.links.map((link) => candidate(peer, link)))
  const best = candidates.toSorted(byPurpose[purpose])[0]
  const kept = candidates.find(({ answer }) => isSame(answer, incumbent))
  if (best === undefined || kept === undefined) return best?.answer
  return isClearlyBetter[purpose](best, kept) ? best.answer : kept.answer
}

interface Candidate {
  readonly isCable: boolean
  readonly answer: BestPeer
}

function candidate(peer: MeshPeer, link: MeshLink): Candidate {
  const memory = peer.targets.flatMap(({ memoryBytes }) => memoryBytes ?? [])
  return {
    isCable: link.kind === 'thunderbolt',
    answer: {
      peerId: peer.id,
      hostname: peer.hostname,
      latencyUs: link.measured.latencyUs,
      bandwidthGbps: bandwidthOf(link),
      memoryBytes: memory.length === 0 ? undefined : Math.max(...memory),
      address: link.address,
      interfaceName: link.interfaceName,
      linkId: link.id,
    },
  }
}

function isSame(a: BestPeer, b: BestPeer | undefined): boolean {
  return a.peerId === b?.peerId && a.linkId === b.linkId
}

type Order = (a: Candidate, b: Candidate) => number

const cablesFirst: Order = (a, b) => Number(b.isCable) - Number(a.isCable)
const lower = (a: number | undefined, b: number | undefined): number =>
  (a ?? Number.POSITIVE_INFINITY) === (b ?? Number.POSITIVE_INFINITY)
    ? 0
    : (a ?? Number.POSITIVE_INFINITY) - (b ?? Number.POSITIVE_INFINITY)
const higher = (a: number | undefined, b: number | undefined): number => (b ?? -1) - (a ?? -1)
const latency: Order = ({ answer: a }, { answer: b }) => lower(a.latencyUs, b.latencyUs)
const bandwidth: Order = ({ answer: a }, { answer: b }) => higher(a.bandwidthGbps, b.bandwidthGbps)
const memory: Order = ({ answer: a }, { answer: b }) => higher(a.memoryBytes, b.memoryBytes)
/** Two that are alike are told apart the same way every time. */
const stable: Order = ({ answer: a }, { answer: b }) => (`${a.peerId}${a.linkId}` < `${b.peerId}${b.linkId}` ? -1 : 1)

function firstOf(...orders: readonly Order[]): Order {
  return (a, b) => {
    for (const order of orders) {
      const result = order(a, b)
      if (result !== 0) return result
    }
    return 0
  }
}

const byPurpose: Record<PeerPurpose, Order> = {
  latency: firstOf(cablesFirst, latency, bandwidth, stable),
  bandwidth: firstOf(cablesFirst, bandwidth, latency, stable),
  memory: firstOf(memory, cablesFirst, latency, stable),
}

const isFaster = ({ answer: best }: Candidate, { answer: kept }: Candidate): boolean => {
  if (kept.latencyUs === undefined || best.latencyUs === undefined) return best.latencyUs !== undefined
  const { share, leastUs, mostUs } = latencyMargin
  return best.latencyUs <= kept.latencyUs - Math.min(mostUs, Math.max(leastUs, kept.latencyUs * share))
}

const isWider = ({ answer: best }: Candidate, { answer: kept }: Candidate): boolean => {
  if (kept.bandwidthGbps === undefined || best.bandwidthGbps === undefined) return best.bandwidthGbps !== undefined
  return best.bandwidthGbps >= kept.bandwidthGbps * (1 + bandwidthMargin)
}

const isClearlyBetter: Record<PeerPurpose, (best: Candidate, kept: Candidate) => boolean> = {
  latency: (best, kept) => (best.isCable === kept.isCable ? isFaster(best, kept) : best.isCable),
  bandwidth: (best, kept) => (best.isCable === kept.isCable ? isWider(best, kept) : best.isCable),
  // Memory is a promise and not a measurement, so it does not flicker.
  memory: (best, kept) =>
    memory(best, kept) === 0
      ? best.isCable === kept.isCable
        ? isFaster(best, kept)
        : best.isCable
      : memory(best, kept) < 0,
}
