import { checkKnown, requirePositive } from './validate.ts'

/** Numbers of one PCI Express generation. */
export interface PcieGeneration {
  readonly generation: number
  /** Transfer rate of one lane, in gigatransfers per second. */
  readonly gtPerSecond: number
  /** Share of the transfers that carry data: line coding, and from 6.0 on the share of a flit that holds packets. */
  readonly encoding: number
  /** One lane, one direction, after encoding and before packet headers, in GB/s. */
  readonly gBpsPerLane: number
  /** Bytes around the payload of each packet: framing, header with a 64-bit address, checksum. */
  readonly packetOverheadBytes: number
  readonly sources: {
    readonly gtPerSecond: string
    readonly encoding: string
    readonly gBpsPerLane: string
    readonly packetOverheadBytes: string
  }
}

const spec = 'PCI Express Base Specification'
const derived = 'gtPerSecond × encoding / 8'

function generation(number: number, gtPerSecond: number, encoding: number, coding: string): PcieGeneration {
  const flits = number >= 6
  return {
    generation: number,
    gtPerSecond,
    encoding,
    gBpsPerLane: (gtPerSecond * encoding) / 8,
    packetOverheadBytes: flits ? 16 : 24,
    sources: {
      gtPerSecond: `${spec} ${number}.0`,
      encoding: `${spec} ${number}.0: ${coding}`,
      gBpsPerLane: derived,
      packetOverheadBytes: flits
        ? `${spec} 6.0: 16-byte header; framing and checksum belong to the flit`
        : `${spec}: 16-byte header, 4 bytes of checksum, 4 bytes of framing and sequence number`,
    },
  }
}

/** PCI Express 1.0 to 6.0, oldest first. */
export const pcieTable: readonly PcieGeneration[] = [
  generation(1, 2.5, 8 / 10, '8b/10b coding'),
  generation(2, 5, 8 / 10, '8b/10b coding'),
  generation(3, 8, 128 / 130, '128b/130b coding'),
  generation(4, 16, 128 / 130, '128b/130b coding'),
  generation(5, 32, 128 / 130, '128b/130b coding'),
  generation(6, 64, 236 / 256, '236 packet bytes in each 256-byte flit'),
]

/**
 * Payload of one packet, in bytes: the smallest maximum every device supports, and what client machines settle on. With
 * it the estimate meets what was measured: OCuLink 4.0 x4 6.6–6.7 GB/s (Tom's Hardware 2025), 4.0 x16 23.9–27.1 GB/s
 * (NVIDIA/nvbandwidth issue 15).
 */
const payloadBytes = 128

/** Share of a link that is payload once packet headers are paid for. */
export function packetEfficiency(overheadBytes: number): number {
  return payloadBytes / (payloadBytes + overheadBytes)
}

const laneCounts: ReadonlySet<number> = new Set([1, 2, 4, 8, 12, 16, 32])

/** Throws `TypeError` or `RangeError` unless a PCI Express link can have this many lanes; 0 and 255 are no widths. */
export function requireLanes(name: string, lanes: number): void {
  requirePositive(name, lanes)
  if (!laneCounts.has(lanes)) throw new RangeError(`${name}: a PCI Express link cannot have ${lanes} lanes`)
}

/** Throws `TypeError` or `RangeError` unless a PCI Express generation runs at this many GT/s. */
export function requireSpeed(name: string, gtPerSecond: number): void {
  requirePositive(name, gtPerSecond)
  if (generationAt(gtPerSecond) === undefined) throw new RangeError(`${name}: PCI Express has no ${gtPerSecond} GT/s`)
}

function generationAt(gtPerSecond: number): PcieGeneration | undefined {
  return pcieTable.find((row) => row.gtPerSecond === gtPerSecond)
}

/**
 * What a copy gets through a real PCI Express link, each direction, in GB/s: GT/s × lanes × line coding × packet
 * efficiency (128-byte payloads). `undefined` while either number is unknown. Throws `TypeError` for what is no number
 * and `RangeError` for a width or speed that PCI Express does not have.
 */
export function pcieHopGBps(lanes: number | undefined, gtPerSecond: number | undefined): number | undefined {
  checkKnown(requireLanes, { lanes })
  checkKnown(requireSpeed, { gtPerSecond })
  const row = gtPerSecond === undefined ? undefined : generationAt(gtPerSecond)
  if (lanes === undefined || row === undefined) return undefined
  return row.gBpsPerLane * lanes * packetEfficiency(row.packetOverheadBytes)
}
