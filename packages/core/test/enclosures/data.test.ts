import { describe, expect, it } from 'vitest'
import { EnclosureInterface, enclosureModel, enclosureModels, pcieTable, type EnclosureModel } from '../../src/index.ts'

/** Names of the properties that cannot be right. */
function problemsOf(model: EnclosureModel): string[] {
  const { thunderboltVendorId, thunderboltDeviceId, slot, psuWatts, gpuWatts, powerDeliveryWatts } = model
  const generations = pcieTable.map((row) => row.generation)
  const known = new Set<string>(Object.values(EnclosureInterface))
  const right: Readonly<Record<string, boolean>> = {
    id: /^[a-z0-9]+(-[a-z0-9]+)*$/.test(model.id),
    sources: model.sources.length > 0 && model.sources.every((source) => /^https?:$/.test(new URL(source).protocol)),
    vendor: model.vendor.trim() !== '',
    name: model.name.trim() !== '',
    interfaces: model.interfaces.length > 0 && model.interfaces.every((one) => known.has(one)),
    thunderboltVendorId: isId(thunderboltVendorId) && (thunderboltDeviceId === undefined || !!thunderboltVendorId),
    thunderboltDeviceId: isId(thunderboltDeviceId),
    slot: slot === undefined || (generations.includes(slot.generation) && [1, 2, 4, 8, 16].includes(slot.lanes)),
    fixedGpu: slot === undefined || model.fixedGpu === undefined,
    psuWatts: isBetween(psuWatts, 100, 1600),
    gpuWatts: isBetween(gpuWatts, 75, psuWatts ?? Infinity),
    // USB Power Delivery 3.1 ends at 240 W.
    powerDeliveryWatts: isBetween(powerDeliveryWatts, 15, 240),
    bringsPsu: model.bringsPsu !== false || psuWatts === undefined,
  }
  return Object.keys(right).filter((name) => right[name] !== true)
}

function isId(id: number | undefined): boolean {
  return id === undefined || (Number.isInteger(id) && isBetween(id, 1, 0xffff))
}

function isBetween(value: number | undefined, low: number, high: number): boolean {
  return value === undefined || (value >= low && value <= high)
}

describe('enclosure data', () => {
  it('knows well over 25 boxes, each under one id', () => {
    expect(enclosureModels.length).toBeGreaterThanOrEqual(60)
    expect(new Set(enclosureModels.map((model) => model.id)).size).toBe(enclosureModels.length)
    expect(enclosureModel('razer-core-x')?.psuWatts).toBe(650)
    expect(enclosureModel('no-such-box')).toBeUndefined()
  })

  it('gives no two boxes the same Thunderbolt ids, name or alias', () => {
    const ids = enclosureModels.flatMap((model) =>
      model.thunderboltDeviceId === undefined ? [] : [`${model.thunderboltVendorId}:${model.thunderboltDeviceId}`],
    )
    expect(ids.length).toBeGreaterThanOrEqual(4)
    expect(new Set(ids).size).toBe(ids.length)
    const names = enclosureModels.flatMap((model) =>
      [model.name, ...(model.aliases ?? [])].map((name) => `${model.vendor} ${name}`.toLowerCase()),
    )
    expect(new Set(names).size).toBe(names.length)
  })

  it.each(enclosureModels.map((model) => [model.id, model] as const))('%s is sourced and in range', (_, model) => {
    expect(problemsOf(model)).toEqual([])
  })

  it('would notice a box that is not', () => {
    const [good] = enclosureModels
    const bad = { ...good!, id: 'Bad Id', sources: [], psuWatts: 5, gpuWatts: 10, bringsPsu: false, vendor: ' ' }
    expect(problemsOf(bad)).toEqual(['id', 'sources', 'vendor', 'psuWatts', 'gpuWatts', 'bringsPsu'])
  })

  it('leaves power delivery out where the connection carries no power', () => {
    const carriesPower = new Set<string>(
      Object.values(EnclosureInterface).filter((one) => one.startsWith('thunderbolt-') || one.startsWith('usb4-')),
    )
    const wrong = enclosureModels.filter(
      (model) => model.powerDeliveryWatts !== undefined && !model.interfaces.some((one) => carriesPower.has(one)),
    )
    expect(wrong).toEqual([])
  })
})
