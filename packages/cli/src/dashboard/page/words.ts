import type { EGpuDevice, Enclosure, LinkReport, ThunderboltSpeed, TrainedLanes } from '@egpu/core'
import type { MeshLink } from '@egpu/mesh'

const labels: Readonly<Record<ThunderboltSpeed, string>> = {
  'thunderbolt-1': 'Thunderbolt 1',
  'thunderbolt-2': 'Thunderbolt 2',
  'thunderbolt-3': 'Thunderbolt 3',
  'thunderbolt-4': 'Thunderbolt 4',
  'thunderbolt-5': 'Thunderbolt 5',
}

export function deviceTitle({ gpu, id }: EGpuDevice): string {
  return gpu.name ?? id
}

export function enclosureTitle({ name, vendorName, id }: Enclosure): string {
  return name === undefined ? id : [vendorName, name].filter((part) => part !== undefined).join(' ')
}

type CableLink = Pick<LinkReport, 'sticker' | 'trained' | 'downgrade'>

/** What runs through a cable: `Thunderbolt 4, 40 Gb/s`. */
export function cableText(link: CableLink | undefined): string {
  const parts = [
    link?.sticker === undefined ? undefined : labels[link.sticker],
    laneText(link?.trained?.toDevice),
  ].filter((part) => part !== undefined)
  return parts.length === 0 ? 'speed unknown' : parts.join(', ')
}

/** What lanes carry together: `40 Gb/s`. */
export function laneText(lanes: TrainedLanes | undefined): string | undefined {
  return lanes === undefined ? undefined : `${lanes.lanes * lanes.gbpsPerLane} Gb/s`
}

/** A way to another host: `domain0/port1, Thunderbolt 4`, or the network. */
export function linkLabel({ kind, port, interfaceName, sticker }: MeshLink): string {
  const parts = [
    port ?? interfaceName,
    kind === 'network' ? 'network, no cable' : sticker === undefined ? 'cable' : labels[sticker],
  ]
  return parts.filter((part) => part !== undefined).join(', ')
}

export function gigabytes(value: number | undefined): string | undefined {
  return value === undefined ? undefined : `${value.toFixed(1)} GB/s`
}

export function clockText(at: number): string {
  return new Date(at).toLocaleTimeString(undefined, { hour12: false })
}
