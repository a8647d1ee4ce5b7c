import type { Bottleneck, DuplexGBps, LinkDowngrade, LinkReport, PcieHop } from '../types/link.ts'
import { controllerLimitGBps, thunderboltPayloadGBps, trainedGbps } from './cable.ts'
import { pcieGenerationOf, pcieHopGBps, requireLanes } from './pcie.ts'
import { thunderboltTable } from './thunderbolt.ts'

/** What a driver read about a link. */
export interface LinkFacts extends Pick<LinkReport, 'sticker' | 'trained' | 'measuredGBps'> {
  /**
   * From the root port down to the GPU, the uplink of a discrete host controller included as a `real` hop. `maxLanes`
   * and `maxGtPerSecond` are what *both* ends of the hop can do: the smaller of the two ends. Leave out what was not
   * read: widths of 0 and 255 are no widths.
   */
  readonly hops?: readonly Omit<PcieHop, 'effectiveGBps'>[] | undefined
  /**
   * Set when the GPU was busy while the hops were read. Otherwise 2.5 GT/s on a hop that can do more is taken for an
   * idle GPU saving power, as it nearly always is, and not for a downgrade.
   */
  readonly underLoad?: boolean | undefined
}

/**
 * Makes the report of a link from what was read: the estimate each way, the hop or cable that limits it, and any
 * downgrade. Virtual and internal hops never count. What cannot be known stays `undefined`: a cable that trained to
 * something unknown makes the estimate unknown too. Throws `TypeError` or `RangeError` for numbers no link has.
 */
export function linkReport(facts: LinkFacts): LinkReport {
  const hops = (facts.hops ?? []).map((hop) => withEstimate(hop, facts.underLoad === true))
  const { effectiveGBps, bottleneck } = pathBandwidth({ ...facts, hops })
  return {
    sticker: facts.sticker,
    trained: facts.trained,
    hops,
    bottleneck,
    effectiveGBps,
    measuredGBps: facts.measuredGBps,
    downgrade: cableDowngrade(facts) ?? firstDowngrade(hops, facts.underLoad === true),
  }
}

/** What a path lets through, and where it is narrowest. */
export interface PathBandwidth {
  readonly effectiveGBps?: DuplexGBps | undefined
  readonly bottleneck?: Bottleneck | undefined
}

/**
 * The estimate for a cable and its hops together, each way, in GB/s. Takes the `effectiveGBps` of real hops as given;
 * those without one are left out, so `linkReport` is what drivers call.
 */
export function pathBandwidth(path: Pick<LinkReport, 'sticker' | 'trained' | 'hops'>): PathBandwidth {
  const tunnelled = path.sticker !== undefined || path.trained !== undefined || path.hops.some(isVirtual)
  const toDevice = narrowest(path, tunnelled, 'toDevice')
  const fromDevice = narrowest(path, tunnelled, 'fromDevice')
  if (toDevice === undefined && fromDevice === undefined) return {}
  const both = [toDevice, fromDevice].filter((one) => one !== undefined)
  return {
    effectiveGBps: { toDevice: toDevice?.effectiveGBps, fromDevice: fromDevice?.effectiveGBps },
    bottleneck: both.reduce((least, one) => (one.effectiveGBps < least.effectiveGBps ? one : least)),
  }
}

type Direction = keyof DuplexGBps

function narrowest(
  path: Pick<LinkReport, 'sticker' | 'trained' | 'hops'>,
  tunnelled: boolean,
  direction: Direction,
): Bottleneck | undefined {
  const cable = tunnelled ? cableLimit(path, direction) : undefined
  if (tunnelled && cable === undefined) return undefined
  const limits = path.hops
    .map(hopLimit)
    .concat(cable)
    .filter((limit) => limit !== undefined)
  return limits.reduce<Bottleneck | undefined>(
    (least, limit) => (least === undefined || limit.effectiveGBps < least.effectiveGBps ? limit : least),
    undefined,
  )
}

function cableLimit(path: Pick<LinkReport, 'sticker' | 'trained'>, direction: Direction): Bottleneck | undefined {
  const lanes = path.trained?.[direction]
  const effectiveGBps = thunderboltPayloadGBps(lanes, path.sticker)
  if (lanes === undefined || effectiveGBps === undefined) return undefined
  const byController = effectiveGBps === controllerLimitGBps(path.sticker)
  const reason = byController
    ? `${path.sticker} controllers pass on no more than this of the ${trainedGbps(lanes)} Gb/s on the cable`
    : `the cable trained to ${describeLanes(lanes)}`
  return { at: 'cable', effectiveGBps, reason }
}

function hopLimit(hop: PcieHop): Bottleneck | undefined {
  if (hop.kind !== 'real' || hop.effectiveGBps === undefined) return undefined
  const reason = `the PCI Express link to ${hop.name ?? hop.id} has ${hop.lanes} lanes`
  return { at: hop.id, effectiveGBps: hop.effectiveGBps, reason }
}

function withEstimate(hop: Omit<PcieHop, 'effectiveGBps'>, underLoad: boolean): PcieHop {
  if (hop.kind !== 'real') return hop
  if (hop.maxLanes !== undefined) requireLanes(hop.maxLanes)
  if (hop.maxGtPerSecond !== undefined) pcieGenerationOf(hop.maxGtPerSecond)
  const speed = isIdleSpeed(hop, underLoad) ? hop.maxGtPerSecond : hop.gtPerSecond
  return { ...hop, effectiveGBps: pcieHopGBps(hop.lanes, speed) }
}

function isVirtual(hop: PcieHop): boolean {
  return hop.kind === 'virtual'
}

/** A GPU that saves power drops its link to 2.5 GT/s and brings it back with the first job. */
function isIdleSpeed(hop: PcieHop, underLoad: boolean): boolean {
  return !underLoad && hop.gtPerSecond === 2.5 && hop.maxGtPerSecond !== undefined
}

/** Both directions are summed: asymmetric mode moves lanes from one to the other and is no downgrade. */
function cableDowngrade({ sticker, trained }: LinkFacts): LinkDowngrade | undefined {
  if (sticker === undefined || trained?.toDevice === undefined || trained.fromDevice === undefined) return undefined
  const expected = thunderboltTable[sticker].linkGbps
  const actual = (trainedGbps(trained.toDevice) + trainedGbps(trained.fromDevice)) / 2
  if (actual >= expected) return undefined
  return { at: 'cable', expected: `${expected} Gb/s`, actual: `${actual} Gb/s: ${describeLanes(trained.toDevice)}` }
}

function firstDowngrade(hops: readonly PcieHop[], underLoad: boolean): LinkDowngrade | undefined {
  const below = hops.find((hop) => hop.kind === 'real' && (isNarrow(hop) || isSlow(hop, underLoad)))
  if (below === undefined) return undefined
  return {
    at: below.id,
    expected: describeHop(below.maxLanes, below.maxGtPerSecond),
    actual: describeHop(below.lanes, below.gtPerSecond),
  }
}

function isNarrow(hop: PcieHop): boolean {
  return hop.lanes !== undefined && hop.maxLanes !== undefined && hop.lanes < hop.maxLanes
}

function isSlow(hop: PcieHop, underLoad: boolean): boolean {
  if (hop.gtPerSecond === undefined || hop.maxGtPerSecond === undefined || isIdleSpeed(hop, underLoad)) return false
  return hop.gtPerSecond < hop.maxGtPerSecond
}

function describeHop(lanes: number | undefined, gtPerSecond: number | undefined): string {
  return [gtPerSecond === undefined ? undefined : `${gtPerSecond} GT/s`, lanes === undefined ? undefined : `x${lanes}`]
    .filter((part) => part !== undefined)
    .join(' ')
}

function describeLanes({ lanes, gbpsPerLane }: { readonly lanes: number; readonly gbpsPerLane: number }): string {
  return `${lanes} ${lanes === 1 ? 'lane' : 'lanes'} of ${gbpsPerLane} Gb/s`
}
