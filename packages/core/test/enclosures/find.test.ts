import { describe, expect, it } from 'vitest'
import { enclosureModels, findEnclosureModels, type EnclosureTraits } from '../../src/index.ts'

function best(traits: EnclosureTraits): readonly [string | undefined, number | undefined] {
  const [first] = findEnclosureModels(traits)
  return [first?.model.id, first?.confidence]
}

describe('findEnclosureModels', () => {
  it('finds a box by its Thunderbolt ids alone', () => {
    expect(best({ thunderboltVendorId: 0xed, thunderboltDeviceId: 0x41b6 })).toEqual([
      'gigabyte-aorus-rtx-5090-ai-box',
      0.95,
    ])
    expect(best({ thunderboltVendorId: 0x8, thunderboltDeviceId: 0x38 })).toEqual(['sonnet-breakaway-box-550', 0.95])
    expect(best({ thunderboltVendorId: 0xb8, thunderboltDeviceId: 0x2463 })).toEqual(['aoostar-ag02', 0.95])
  })

  it.each([
    ['Core X Chroma', 'Razer', 'razer-core-x-chroma'],
    ['Core X', 'Razer', 'razer-core-x'],
    ['Core', 'Razer', 'razer-core'],
    ['Razer Core X V2', undefined, 'razer-core-x-v2'],
    ['razer core-x v2', 'RAZER INC.', 'razer-core-x-v2'],
    ['Core - Unsupported', 'Razer', 'razer-core'],
    ['eGPU Breakaway Box 750ex', 'Sonnet Technologies, Inc.', 'sonnet-breakaway-box-750ex'],
    ['Breakaway Box 750', 'Sonnet Technologies, Inc.', 'sonnet-breakaway-box-750'],
    ['Sonnet Breakaway Box 850 T5', undefined, 'sonnet-breakaway-box-850-t5'],
    ['GIGABYTE AORUS RTX5090 AI BOX', 'GIGABYTE', 'gigabyte-aorus-rtx-5090-ai-box'],
    ['TBX-550CA', 'TUL', 'powercolor-tbx-550ca'],
    ['AG2', 'AOOSTAR', 'aoostar-ag02'],
    ['GPD G1', undefined, 'gpd-g1'],
    ['Blackmagic eGPU Pro', 'Blackmagic Design', 'blackmagic-egpu-pro'],
    ['HP Accelerator', 'HP', 'hp-omen-accelerator'],
  ])('finds %s of %s by name', (name, vendorName, id) => {
    const [found, confidence] = best({ name, vendorName })
    expect(found).toBe(id)
    expect(confidence).toBeGreaterThanOrEqual(0.8)
  })

  it('finds every model by its own vendor and name, before any other', () => {
    for (const model of enclosureModels) {
      expect(best({ name: model.name, vendorName: model.vendor })).toEqual([model.id, 0.9])
    }
  })

  it('offers the models of a family, none as certain, when the name tells no more', () => {
    const found = findEnclosureModels({ name: 'ROG XG Mobile', vendorName: 'ASUS' })
    expect(found.filter((one) => one.confidence === 0.6)).toHaveLength(3)
    expect(found.every((one) => one.confidence < 0.8)).toBe(true)
  })

  it('offers a maker only as a hint', () => {
    const found = findEnclosureModels({ thunderboltVendorId: 0xed })
    expect(found.length).toBeGreaterThan(5)
    expect(found.every((one) => one.confidence === 0.2 && one.model.vendor === 'GIGABYTE')).toBe(true)
  })

  it('trusts a name less under another vendor, and not at all against the ids', () => {
    expect(best({ name: 'Node', vendorName: 'Somebody' })).toEqual(['akitio-node', 0.45])
    const found = findEnclosureModels({
      name: 'AORUS RTX 5090 AI BOX',
      thunderboltVendorId: 0xed,
      thunderboltDeviceId: 0x1,
    })
    expect(found.map((one) => one.model.id)).not.toContain('gigabyte-aorus-rtx-5090-ai-box')
  })

  it('finds nothing for a dock it does not know, an empty name or no traits', () => {
    expect(findEnclosureModels({ name: 'TS4', vendorName: 'CalDigit, Inc.' })).toEqual([])
    expect(findEnclosureModels({ name: '  ' })).toEqual([])
    expect(findEnclosureModels({})).toEqual([])
  })

  it.each([-1, 1.5, 0x10000, Number.NaN])('refuses the id %d', (id) => {
    expect(() => findEnclosureModels({ thunderboltVendorId: id })).toThrow(TypeError)
    expect(() => findEnclosureModels({ thunderboltDeviceId: id })).toThrow(TypeError)
  })

  it.each([
    ['Thunderbolt 3 Dock', undefined],
    ['Thunderbolt 3 Dock', 'Lenovo'],
    ['ThinkPad Thunderbolt 3 Dock', 'Lenovo'],
    ['Thunderbolt 4 Dock', 'Dell'],
    ['Dock 3', undefined],
    ['USB4 Hub 2', undefined],
  ])('does not take the plain dock %s of %s for a graphics dock', (name, vendorName) => {
    const likely = findEnclosureModels({ name, vendorName }).filter(({ confidence }) => confidence > 0.2)
    expect(likely).toEqual([])
  })
})
