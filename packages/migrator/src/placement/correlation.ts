import type { EGpuDevice, Enclosure } from '@egpu/core'

/** Losses this close to each other have one cause. */
const togetherMs = 2_000

/** For so long what shares the cause is left alone, unless it is that or nothing. */
const suspectMs = 30_000

/** Two at least, and at least this share of all that have it in common. */
const leastLost = 2
const leastShare = 0.5

/** What devices have in common that can fail for all of them: the boxes and hubs above them, their kernel driver. */
export function commonGround(device: EGpuDevice, boxes: ReadonlyMap<string, Enclosure>): readonly string[] {
  const grounds: string[] = device.driver === undefined ? [] : [`driver ${device.driver}`]
  const seen = new Set<string>()
  for (let id = device.enclosureId; id !== undefined && !seen.has(id);) {
    seen.add(id)
    const box = boxes.get(id)
    grounds.push(`enclosure ${box?.name ?? id}`)
    id = box?.parentId
  }
  return grounds
}

/** Notices devices that are lost together, and says who else stands on the same ground. */
export class Correlation {
  readonly #losses = new Map<string, { readonly deviceId: string; readonly atMs: number }[]>()
  #boxes: { readonly of: readonly Enclosure[]; readonly byId: ReadonlyMap<string, Enclosure> } | undefined
  readonly #suspects = new Map<string, { readonly untilMs: number; readonly lost: number }>()

  /** A device was lost; `others` are those that are still there. */
  lost(device: EGpuDevice, others: readonly EGpuDevice[], enclosures: readonly Enclosure[], atMs: number): void {
    const boxes = this.#byId(enclosures)
    let left: Map<string, number> | undefined
    for (const ground of commonGround(device, boxes)) {
      const recent = (this.#losses.get(ground) ?? []).filter(
        (loss) => atMs - loss.atMs <= togetherMs && loss.deviceId !== device.id,
      )
      const losses = [...recent, { deviceId: device.id, atMs }]
      this.#losses.set(ground, losses)
      if (losses.length < leastLost) continue
      left ??= countGrounds(others, boxes)
      if (losses.length / (losses.length + (left.get(ground) ?? 0)) < leastShare) continue
      this.#suspects.set(ground, { untilMs: atMs + suspectMs, lost: losses.length })
    }
  }

  /** Why a device is to be left alone for the moment, as the end of a sentence. */
  reason(device: EGpuDevice, enclosures: readonly Enclosure[], nowMs: number): string | undefined {
    if (this.#suspects.size === 0) return undefined
    for (const ground of commonGround(device, this.#byId(enclosures))) {
      const suspect = this.#suspects.get(ground)
      if (suspect === undefined) continue
      if (suspect.untilMs > nowMs) return `shares ${ground} with ${suspect.lost} devices that were just lost together`
      this.#suspects.delete(ground)
    }
    return undefined
  }

  /** A list stays the same object until something changes, and a plan asks about a thousand devices. */
  #byId(enclosures: readonly Enclosure[]): ReadonlyMap<string, Enclosure> {
    if (this.#boxes?.of !== enclosures) {
      this.#boxes = { of: enclosures, byId: new Map(enclosures.map((enclosure) => [enclosure.id, enclosure])) }
    }
    return this.#boxes.byId
  }
}

/** How many devices stand on each ground. */
function countGrounds(devices: readonly EGpuDevice[], boxes: ReadonlyMap<string, Enclosure>): Map<string, number> {
  const counts = new Map<string, number>()
  for (const device of devices) {
    for (const ground of commonGround(device, boxes)) counts.set(ground, (counts.get(ground) ?? 0) + 1)
  }
  return counts
}
