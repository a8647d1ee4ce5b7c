import { ThunderboltSpeed } from '@egpu/core'
import type { LinkReport, PcieHop, TrainedLanes } from '@egpu/core'

/** A cable as trained, the same in both directions. */
export type Trained = TrainedLanes

interface Generation {
  readonly rank: number
  readonly trained: Trained
  readonly effectiveGBps: number
}

const generations: Readonly<Record<ThunderboltSpeed, Generation>> = {
  [ThunderboltSpeed.TB1]: { rank: 1, trained: { lanes: 1, gbpsPerLane: 10 }, effectiveGBps: 0.9 },
  [ThunderboltSpeed.TB2]: { rank: 2, trained: { lanes: 2, gbpsPerLane: 10 }, effectiveGBps: 1.5 },
  [ThunderboltSpeed.TB3]: { rank: 3, trained: { lanes: 2, gbpsPerLane: 20 }, effectiveGBps: 2.8 },
  [ThunderboltSpeed.TB4]: { rank: 4, trained: { lanes: 2, gbpsPerLane: 20 }, effectiveGBps: 2.8 },
  [ThunderboltSpeed.TB5]: { rank: 5, trained: { lanes: 2, gbpsPerLane: 40 }, effectiveGBps: 5.7 },
}

/** The lower generation of the two ends. */
export function negotiated(host: ThunderboltSpeed, box: ThunderboltSpeed): ThunderboltSpeed {
  return generations[host].rank <= generations[box].rank ? host : box
}

/** What a cable between two ends of this generation trains to when all is well. */
export function fullTraining(speed: ThunderboltSpeed): Trained {
  return generations[speed].trained
}

function gbpsOf(trained: Trained): number {
  return trained.lanes * trained.gbpsPerLane
}

function pcieGBps(lanes: number, gtPerSecond: number): number {
  const coding = gtPerSecond >= 8 ? 128 / 130 : 8 / 10
  return ((lanes * gtPerSecond * coding) / 8) * 0.87
}

function realHop(id: string, name: string, lanes: number, gtPerSecond: number): PcieHop {
  return { id, name, kind: 'real', lanes, gtPerSecond, effectiveGBps: pcieGBps(lanes, gtPerSecond) }
}

export interface CableState {
  readonly speed: ThunderboltSpeed
  readonly trained: Trained
}

export interface SlotState {
  readonly lanes: number
  readonly gtPerSecond: number
}

/** The trained part of a report, as an enclosure shows it too. */
export function cableReport(cable: CableState): Pick<LinkReport, 'sticker' | 'trained' | 'downgrade'> {
  const { trained, speed } = cable
  const full = fullTraining(speed)
  const downgraded = gbpsOf(trained) < gbpsOf(full)
  return {
    sticker: speed,
    trained: { toDevice: trained, fromDevice: trained },
    downgrade: downgraded ? { at: 'cable', expected: describe(full), actual: describe(trained) } : undefined,
  }
}

/** The whole path of one GPU: through a cable when `cable` is given, else straight into a slot. */
export function linkReport(pciAddress: string, slot: SlotState, card: SlotState, cable?: CableState): LinkReport {
  const hop = realHop(
    pciAddress,
    'slot',
    Math.min(slot.lanes, card.lanes),
    Math.min(slot.gtPerSecond, card.gtPerSecond),
  )
  const hopGBps = hop.effectiveGBps ?? 0
  if (cable === undefined) {
    return {
      hops: [hop],
      bottleneck: { at: hop.id, effectiveGBps: hopGBps, reason: 'the only hop' },
      effectiveGBps: { toDevice: hopGBps, fromDevice: hopGBps },
    }
  }
  const cableGBps =
    generations[cable.speed].effectiveGBps * Math.min(1, gbpsOf(cable.trained) / gbpsOf(fullTraining(cable.speed)))
  const limit = Math.min(cableGBps, hopGBps)
  return {
    ...cableReport(cable),
    // The kernel shows 2.5 GT/s on tunnelled hops whatever they carry.
    hops: [{ id: 'tunnel', kind: 'virtual', lanes: 4, gtPerSecond: 2.5 }, hop],
    bottleneck:
      cableGBps <= hopGBps
        ? { at: 'cable', effectiveGBps: cableGBps, reason: `PCI Express over ${describe(cable.trained)}` }
        : { at: hop.id, effectiveGBps: hopGBps, reason: 'the slot carries less than the cable' },
    effectiveGBps: { toDevice: limit, fromDevice: limit },
  }
}

function describe({ lanes, gbpsPerLane }: Trained): string {
  return `${lanes} × ${gbpsPerLane} Gb/s`
}
