import type { Bottleneck, DuplexGBps, LinkDowngrade, LinkReport, PcieHop } from '../types/link.ts'
import { controllerLimitGBps, thunderboltPayloadGBps, trainedGbps } from './cable.ts'
import { pcieHopGBps, requireLanes, requireSpeed } from './pcie.ts'
import { thunderboltTable } from './thunderbolt.ts'
import { checkKnown } from './validate.ts'

/** What a driver read about a link. */
export interface LinkFacts extends Pick<LinkReport, 'sticker' | 'trained' | 'measuredGBps'> {
  /**
   * From the root port down to the GPU, the uplink of a discrete host controller included as a `real` hop. `maxLanes`
   * and `maxGtPerSecond` are what *both* ends of the hop can do: the smaller of the two ends. Leave out what was not
   * read: widths of 0 and 255 are no widths.
   */
  readonly hops?: readonly Omit<PcieHop, 'effectiveGBps'>[] | undefined
  /**
   * Set when the GPU was busy while the hops were read, or is known not to save power. Otherwise a speed below what both
   * ends can do is taken for a GPU that saves power, as it nearly always is: no downgrade, and the estimate goes by what
   * the ends can do. Lanes do not change with the load.
   */
  readonly underLoad?: boolean | undefined
}

/**
 * Makes the report of a link from what was read: the estimate each way, the hop or cable that limits it, and any
 * downgrade. Virtual and internal hops never count. What cannot be known stays `undefined`: one real hop or cable that
 * nothing is known about makes the whole path unknown. Throws `TypeError` or `RangeError` for numbers no link has.
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
 * one without it makes the path unknown. Drivers call `linkReport`, which fills it in.
 */
export function pathBandwidth(path: Pick<LinkReport, 'sticker' | 'trained' | 'hops'>): PathBandwidth {
  const tunnelled = path.sticker !== undefined || path.trained !== undefined || path.hops.some(isVirtual)
  const toDevice = narrowest(path, tunnelled, 'toDevice')
  const fromDevice = narrowest(path, tunnelled, 'fromDevice')
  const both = [toDevice, fromDevice].filter((one) => one !== undefined)
  if (both.length === 0) return {}
  return {
    effectiveGBps: { toDevice: toDevice?.effectiveGBps, fromDevice: fromDevice?.effectiveGBps },
    bottleneck: narrower(both),
  }
}

function narrower(limits: readonly Bottleneck[]): Bottleneck {
  return limits.reduce((least, one) => (one.effectiveGBps < least.effectiveGBps ? one : least))
}

type Direction = keyof DuplexGBps

function narrowest(
  path: Pick<LinkReport, 'sticker' | 'trained' | 'hops'>,
  tunnelled: boolean,
  direction: Direction,
): Bottleneck | undefined {
  const limits = path.hops.filter((hop) => hop.kind === 'real').map(hopLimit)
  if (tunnelled) limits.push(cableLimit(path, direction))
  const known = limits.filter((limit) => limit !== undefined)
  if (known.length === 0 || known.length < limits.length) return undefined
  return narrower(known)
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
  if (hop.effectiveGBps === undefined) return undefined
  const reason = `the PCI Express link to ${hop.name ?? hop.id} has ${hop.lanes} lanes`
  return { at: hop.id, effectiveGBps: hop.effectiveGBps, reason }
}

function withEstimate(hop: Omit<PcieHop, 'effectiveGBps'>, underLoad: boolean): PcieHop {
  if (hop.kind !== 'real') return hop
  checkKnown(requireLanes, { lanes: hop.lanes, maxLanes: hop.maxLanes })
  checkKnown(requireSpeed, { gtPerSecond: hop.gtPerSecond, maxGtPerSecond: hop.maxGtPerSecond })
  const speed = underLoad ? hop.gtPerSecond : (hop.maxGtPerSecond ?? hop.gtPerSecond)
  return { ...hop, effectiveGBps: pcieHopGBps(hop.lanes, speed) }
}

function isVirtual(hop: PcieHop): boolean {
  return hop.kind === 'virtual'
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
  const below = hops.find((hop) => hop.kind === 'real' && (isNarrow(hop) || (underLoad && isSlow(hop))))
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

function isSlow(hop: PcieHop): boolean {
  return hop.gtPerSecond !== undefined && hop.maxGtPerSecond !== undefined && hop.gtPerSecond < hop.maxGtPerSecond
}

function describeHop(lanes: number | undefined, gtPerSecond: number | undefined): string {
  return [gtPerSecond === undefined ? undefined : `${gtPerSecond} GT/s`, lanes === undefined ? undefined : `x${lanes}`]
    .filter((part) => part !== undefined)
    .join(' ')
}

function describeLanes({ lanes, gbpsPerLane }: { readonly lanes: number; readonly gbpsPerLane: number }): string {
  return `${lanes} ${lanes === 1 ? 'lane' : 'lanes'} of ${gbpsPerLane} Gb/s`
}
