import type { Traits } from './identity.ts'

/**
 * What a device's id is made from: the strongest stable thing known about it when it was first seen. Bus numbers and
 * positions in a list never are. Devices that come out the same here are told apart by a number at the end.
 */
export function idBasis(traits: readonly Traits[]): string {
  const first = <T>(read: (one: Traits) => T | undefined): T | undefined => {
    for (const one of traits) {
      const value = read(one)
      if (value !== undefined) return value
    }
    return undefined
  }
  const card = first(({ ids }) => ids.board) ?? first(({ ids }) => ids.model)
  const box = first(boxOf)
  if (box !== undefined && card !== undefined) return `box/${box}/${card}`
  const serial = first((one) => one.serial)
  if (serial !== undefined) return `serial/${serial}`
  const uuid = first((one) => one.uuid)
  if (uuid !== undefined) return `uuid/${uuid}`
  if (card !== undefined) return `card/${card}`
  return `name/${first((one) => one.name) ?? first((one) => one.maker) ?? ''}`
}

/** The box and the place in it. */
export function boxOf({ enclosureUid, enclosureSlot }: Traits): string | undefined {
  return enclosureUid === undefined ? undefined : `${enclosureUid}/${enclosureSlot ?? '-'}`
}

/** `nvidia-2684-3f9a12bc45de`: says something to a person, and gives no serial number away. */
export function idText(basis: string, traits: readonly Traits[]): string {
  const maker = traits.find((one) => one.maker !== undefined)?.maker ?? 'gpu'
  const model = traits.find((one) => one.ids.model !== undefined)?.ids.model?.split(':')[1]
  return [maker, model, hash48(basis)].filter((part) => part !== undefined).join('-')
}

/**
 * 48 bits, as hex: two lanes of FNV-1a with the finalizer of MurmurHash3. Among 10,000 devices two collide with a
 * chance of 2 in 10 million, and then a number tells them apart. Not for secrets; core has no `node:crypto`.
 */
function hash48(text: string): string {
  let low = 0x811c9dc5
  let high = 0x9e3779b9
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index)
    low = Math.imul(low ^ unit, 0x01000193)
    high = Math.imul(high ^ unit, 0x85ebca6b)
  }
  return hex32(mix(low ^ Math.imul(high, 0x27d4eb2f))) + hex32(mix(high)).slice(0, 4)
}

function mix(value: number): number {
  const once = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  const twice = Math.imul(once ^ (once >>> 13), 0xc2b2ae35)
  return twice ^ (twice >>> 16)
}

const hex32 = (value: number): string => (value >>> 0).toString(16).padStart(8, '0')
