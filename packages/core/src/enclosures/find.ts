import { boxes } from './boxes.ts'
import { docks } from './docks.ts'
import type { EnclosureModel } from './model.ts'
import { boxesWithGpu } from './with-gpu.ts'

/** Every enclosure this version knows. */
export const enclosureModels: readonly EnclosureModel[] = [...boxes, ...boxesWithGpu, ...docks]

/** What a driver could read about a box. `Enclosure` fits. */
export interface EnclosureTraits {
  readonly name?: string | undefined
  readonly vendorName?: string | undefined
  readonly thunderboltVendorId?: number | undefined
  readonly thunderboltDeviceId?: number | undefined
}

/** A model that a box may be. */
export interface EnclosureMatch {
  readonly model: EnclosureModel
  /** 0 to 1. Show a model's data as the box's own only from 0.8 up. */
  readonly confidence: number
  readonly matchedBy: readonly ('thunderbolt-ids' | 'name' | 'vendor')[]
}

/** The model with this id; `undefined` if there is none. */
export function enclosureModel(id: string): EnclosureModel | undefined {
  return enclosureModels.find((model) => model.id === id)
}

/**
 * Which models a box may be, the likeliest first; empty when nothing fits. Both Thunderbolt ids give 0.95, the full name
 * 0.9; a name that contains the model's, or is contained in it, 0.6; the vendor alone 0.2. Another vendor's name halves
 * what the model's name gave; an id that contradicts the model rules it out. Throws `TypeError` for ids that are not
 * 16-bit numbers.
 */
export function findEnclosureModels(traits: EnclosureTraits): readonly EnclosureMatch[] {
  requireId('thunderboltVendorId', traits.thunderboltVendorId)
  requireId('thunderboltDeviceId', traits.thunderboltDeviceId)
  return enclosureModels
    .map((model) => match(model, traits))
    .filter((found) => found !== undefined)
    .sort((one, other) => other.confidence - one.confidence || one.model.id.localeCompare(other.model.id))
}

function match(model: EnclosureModel, traits: EnclosureTraits): EnclosureMatch | undefined {
  if (contradicts(model.thunderboltVendorId, traits.thunderboltVendorId)) return undefined
  if (contradicts(model.thunderboltDeviceId, traits.thunderboltDeviceId)) return undefined
  const ids = sameIds(model, traits)
  const vendor = sameVendor(model, traits)
  const name = nameSimilarity(model, traits) * (vendor === false ? 0.5 : 1)
  const matchedBy: EnclosureMatch['matchedBy'] = [
    ...(ids ? (['thunderbolt-ids'] as const) : []),
    ...(name > 0 ? (['name'] as const) : []),
    ...(vendor === true ? (['vendor'] as const) : []),
  ]
  if (matchedBy.length === 0) return undefined
  return { model, confidence: Math.max(ids ? 0.95 : 0, name, vendor === true ? 0.2 : 0), matchedBy }
}

function contradicts(known: number | undefined, seen: number | undefined): boolean {
  return known !== undefined && seen !== undefined && known !== seen
}

function sameIds(model: EnclosureModel, traits: EnclosureTraits): boolean {
  return (
    model.thunderboltDeviceId !== undefined &&
    model.thunderboltDeviceId === traits.thunderboltDeviceId &&
    model.thunderboltVendorId === traits.thunderboltVendorId
  )
}

/** Thunderbolt vendor ids as Linux shows them in `/sys/bus/thunderbolt/devices`; no public list exists. */
const thunderboltVendors: ReadonlyMap<number, string> = new Map([
  [0x4, 'Blackmagic Design'],
  [0x8, 'Sonnet'],
  [0xed, 'GIGABYTE'],
])

/** `undefined` when the box told no vendor. The first word decides: `Sonnet Technologies, Inc.` is Sonnet. */
function sameVendor(model: EnclosureModel, traits: EnclosureTraits): boolean | undefined {
  const byId = traits.thunderboltVendorId === undefined ? undefined : thunderboltVendors.get(traits.thunderboltVendorId)
  const [seen] = words(traits.vendorName ?? byId)
  return seen === undefined ? undefined : words(model.vendor)[0] === seen
}

function nameSimilarity(model: EnclosureModel, traits: EnclosureTraits): number {
  const seen = modelWords(model, traits.name)
  if (seen.words.length === 0) return 0
  const known = [model.name, ...(model.aliases ?? [])].map((name) => modelWords(model, name))
  if (known.some(({ words }) => sameWords(words, seen.words))) return 0.9
  const alike = known.some(
    ({ words, isTelling }) =>
      isTelling && seen.isTelling && (contains(seen.words, words) || contains(words, seen.words)),
  )
  return alike ? 0.6 : 0
}

/** Words that makers add or leave out at will. */
const filler: ReadonlySet<string> = new Set([
  'box',
  'dock',
  'egfx',
  'egpu',
  'enclosure',
  'external',
  'gaming',
  'geforce',
  'gpu',
  'graphics',
  'nvidia',
  'the',
  'thunderbolt',
  'unsupported',
])

/**
 * What is left of a name without its vendor and fillers. A bare number tells nothing (a "Thunderbolt 3 Dock" is no
 * "Thunderbolt 3 Graphics Dock"), so such a name is kept whole and has to be met whole.
 */
function modelWords(
  model: EnclosureModel,
  name: string | undefined,
): { readonly words: readonly string[]; readonly isTelling: boolean } {
  const all = words(name)
  const vendor = new Set(words(model.vendor))
  const telling = all.filter((word) => !filler.has(word) && !vendor.has(word))
  const isTelling = telling.some((word) => !/^\d+$/.test(word))
  return { words: isTelling ? telling : all, isTelling }
}

/** Lower-case letters and digits, cut where they meet: `RTX5090` and `RTX 5090` are the same. */
function words(text: string | undefined): readonly string[] {
  return text?.toLowerCase().match(/[a-z]+|\d+/g) ?? []
}

function sameWords(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && contains(one, other) && contains(other, one)
}

function contains(all: readonly string[], some: readonly string[]): boolean {
  return some.every((word) => all.includes(word))
}

function requireId(name: string, id: number | undefined): void {
  if (id === undefined || (Number.isInteger(id) && id >= 0 && id <= 0xffff)) return
  throw new TypeError(`${name} must be a 16-bit number, got ${id}`)
}
