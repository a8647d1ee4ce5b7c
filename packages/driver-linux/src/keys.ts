import { positionOf } from './enclosure/join-all.ts'
import type { PciFunction } from './topology/types.ts'

/** What a GPU's key is made of. */
export interface KeyParts {
  readonly gpu: PciFunction
  /** Unique id of its box's router and its slot there, when it is certain. */
  readonly enclosureUid?: string | undefined
  readonly slot?: number | undefined
  /** Whether it is behind a cable port, so that its place can change. */
  readonly movable: boolean
  /** The key it had when it was last looked at, if its node has been there since. */
  readonly before?: string | undefined
}

/**
 * A key for each GPU, in order. In a box: the box's id and the slot, which survive ports and reboots. Else
 * vendor:device:subsystem, with the place (device and function numbers along the path, no bus numbers) for what cannot
 * move, and for twins. A twin that comes or goes changes nobody's key. No serial number: only root can read it, and only while the device is awake.
 */
export function keysOf(gpus: readonly KeyParts[]): readonly string[] {
  const first = gpus.map(keyOf)
  const kept = gpus.map(({ before }, index) =>
    before === first[index] || before?.startsWith(`${first[index]}@`) === true ? before : undefined,
  )
  const fresh = first.filter((_, index) => kept[index] === undefined)
  const second = first.map((key, index) => {
    const isTaken = kept.includes(key) || isRepeated(fresh, key)
    return kept[index] ?? (isTaken && gpus[index]?.movable === true ? `${key}@${placeOf(gpus[index])}` : key)
  })
  return second.map((key, index) => {
    const before = second.slice(0, index).filter((other) => other === key).length
    return before === 0 ? key : `${key}#${before + 1}`
  })
}

function keyOf({ gpu, enclosureUid, slot, movable }: KeyParts): string {
  if (enclosureUid !== undefined) return `${enclosureUid}/${slot ?? 0}`
  const ids = [gpu.vendorId, gpu.deviceId, gpu.subsystemVendorId, gpu.subsystemDeviceId]
    .map((id) => id?.toString(16).padStart(4, '0') ?? '-')
    .join(':')
  return movable ? ids : `${ids}@${positionOf(gpu)}`
}

function isRepeated(keys: readonly string[], key: string): boolean {
  return keys.indexOf(key) !== keys.lastIndexOf(key)
}

function placeOf(parts: KeyParts | undefined): string {
  return parts === undefined ? '' : positionOf(parts.gpu)
}
