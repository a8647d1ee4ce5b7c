import { linkReport, ThunderboltSpeed, thunderboltTable } from '@egpu/core'
import type { LinkReport, TrainedLanes } from '@egpu/core'

/** Lanes of a healthy cable; `thunderboltTable` has what they carry. */
const lanesOf: Readonly<Record<ThunderboltSpeed, number>> = {
  [ThunderboltSpeed.TB1]: 1,
  [ThunderboltSpeed.TB2]: 2,
  [ThunderboltSpeed.TB3]: 2,
  [ThunderboltSpeed.TB4]: 2,
  [ThunderboltSpeed.TB5]: 2,
}

const oldestFirst: readonly ThunderboltSpeed[] = Object.values(ThunderboltSpeed)

/** The older generation of the two ends. */
export function negotiated(host: ThunderboltSpeed, box: ThunderboltSpeed): ThunderboltSpeed {
  return oldestFirst.indexOf(host) <= oldestFirst.indexOf(box) ? host : box
}

/** What a cable between two ends of this generation trains to when all is well. */
export function fullTraining(speed: ThunderboltSpeed): TrainedLanes {
  const lanes = lanesOf[speed]
  return Object.freeze({ lanes, gbpsPerLane: thunderboltTable[speed].linkGbps / lanes })
}

export interface CableState {
  readonly speed: ThunderboltSpeed
  readonly trained: TrainedLanes
}

/** One end of a PCI Express hop. */
export interface SlotState {
  readonly lanes: number
  readonly gtPerSecond: number
}

/** The whole path of one GPU: through a cable when `cable` is given, else straight into a slot. */
export function pathOf(pciAddress: string, slot: SlotState, card: SlotState, cable?: CableState): LinkReport {
  const lanes = Math.min(slot.lanes, card.lanes)
  const gtPerSecond = Math.min(slot.gtPerSecond, card.gtPerSecond)
  const hop = {
    id: pciAddress,
    kind: 'real',
    lanes,
    gtPerSecond,
    maxLanes: lanes,
    maxGtPerSecond: gtPerSecond,
  } as const
  if (cable === undefined) return linkReport({ hops: [hop] })
  return linkReport({
    sticker: cable.speed,
    trained: { toDevice: cable.trained, fromDevice: cable.trained },
    // Linux shows 2.5 GT/s on tunnelled hops whatever they carry.
    hops: [{ id: 'tunnel', kind: 'virtual', lanes: 4, gtPerSecond: 2.5 }, hop],
  })
}
