import { checkKnown, requireNonNegative, requirePositive } from './validate.ts'

/** The question: own an external GPU or rent one? Money in any one currency; leave out what is not known. */
export interface EGpuOrCloudQuestion {
  readonly work: {
    /** How long the work takes on the cloud GPU. */
    readonly cloudHours?: number | undefined
    readonly memoryBytes?: number | undefined
    /** The longest round trip that the work can bear. */
    readonly maxLatencyMs?: number | undefined
  }
  readonly local: {
    /** Card, enclosure and cable together, less what they would sell for afterwards. 0 when already owned. */
    readonly hardwarePrice?: number | undefined
    /** Drawn at the wall while working. */
    readonly powerWatts?: number | undefined
    readonly pricePerKwh?: number | undefined
    /** Speed on this work against the cloud GPU: 0.5 takes twice as long. `predictEfficiency` gives the link's part. */
    readonly relativeSpeed?: number | undefined
    readonly memoryBytes?: number | undefined
    readonly latencyMs?: number | undefined
  }
  readonly cloud: {
    readonly pricePerHour?: number | undefined
    readonly memoryBytes?: number | undefined
    readonly latencyMs?: number | undefined
  }
}

/** One side of the comparison. */
export interface OfferCost {
  /** Whether it can do the work: memory and latency suffice. `undefined` when one is asked for but not known. */
  readonly fits: boolean | undefined
  /** What rules it out. */
  readonly refusals: readonly string[]
  readonly hours?: number | undefined
  /** For each of its own hours, in money. */
  readonly pricePerHour?: number | undefined
  readonly total?: number | undefined
}

/** The advice and the arithmetic behind it. */
export interface EGpuOrCloudAdvice {
  /** `undefined` when what is known does not decide it; `unknown` lists what is missing. */
  readonly recommendation: 'egpu' | 'cloud' | 'neither' | undefined
  readonly reason: string
  readonly egpu: OfferCost
  readonly cloud: OfferCost
  /**
   * Cloud hours of work from which on the hardware has paid for itself. `undefined` when it never does, because an hour
   * of own power costs more than an hour of rent, or when a price is unknown.
   */
  readonly breakEvenCloudHours?: number | undefined
  /** Names of the inputs that would have been needed. */
  readonly unknown: readonly string[]
}

/**
 * Own or rent? Memory and latency rule an offer out; of those left, the one that costs less in total wins, the own GPU
 * on a tie. Throws `TypeError` or `RangeError` for NaN, infinite and negative inputs, and for a speed or size of 0.
 */
export function egpuOrCloud({ work, local, cloud }: EGpuOrCloudQuestion): EGpuOrCloudAdvice {
  checkInputs({ work, local, cloud })
  const speed = local.relativeSpeed
  const localRate = product(local.powerWatts, local.pricePerKwh, 1e-3)
  const localHours = speed === undefined ? undefined : product(work.cloudHours, 1 / speed)
  const egpu: OfferCost = {
    ...fit(work, local),
    hours: localHours,
    pricePerHour: localRate,
    total: sum(local.hardwarePrice, product(localHours, localRate)),
  }
  const rented: OfferCost = {
    ...fit(work, cloud),
    hours: work.cloudHours,
    pricePerHour: cloud.pricePerHour,
    total: product(work.cloudHours, cloud.pricePerHour),
  }
  const localRatePerCloudHour = speed === undefined ? undefined : product(localRate, 1 / speed)
  return {
    ...decide(egpu, rented),
    egpu,
    cloud: rented,
    breakEvenCloudHours: breakEven(local.hardwarePrice, localRatePerCloudHour, cloud.pricePerHour),
    unknown: missingInputs({ work, local, cloud }),
  }
}

function decide(egpu: OfferCost, cloud: OfferCost): Pick<EGpuOrCloudAdvice, 'recommendation' | 'reason'> {
  const refusals = [...egpu.refusals.map((why) => `eGPU: ${why}`), ...cloud.refusals.map((why) => `cloud: ${why}`)]
  const reason = refusals.join('; ')
  if (egpu.fits === false && cloud.fits === false) return { recommendation: 'neither', reason }
  if (egpu.fits === undefined || cloud.fits === undefined) {
    return { recommendation: undefined, reason: 'it is not known whether memory and latency suffice' }
  }
  if (!egpu.fits || !cloud.fits) return { recommendation: egpu.fits ? 'egpu' : 'cloud', reason }
  if (egpu.total === undefined || cloud.total === undefined) {
    return { recommendation: undefined, reason: 'both can do it; a price or a duration is missing to compare them' }
  }
  const recommendation = egpu.total <= cloud.total ? 'egpu' : 'cloud'
  return { recommendation, reason: `own ${egpu.total.toFixed(2)} in total, rent ${cloud.total.toFixed(2)}` }
}

type Offer = Pick<EGpuOrCloudQuestion['cloud'], 'memoryBytes' | 'latencyMs'>

function fit(work: EGpuOrCloudQuestion['work'], offer: Offer): Pick<OfferCost, 'fits' | 'refusals'> {
  const refusals: string[] = []
  if (exceeds(work.memoryBytes, offer.memoryBytes)) {
    refusals.push(`the work needs ${work.memoryBytes} bytes of GPU memory, it has ${offer.memoryBytes}`)
  }
  if (exceeds(offer.latencyMs, work.maxLatencyMs)) {
    refusals.push(`a round trip takes ${offer.latencyMs} ms, the work bears ${work.maxLatencyMs}`)
  }
  if (refusals.length > 0) return { fits: false, refusals }
  const memoryKnown = work.memoryBytes === undefined || offer.memoryBytes !== undefined
  const latencyKnown = work.maxLatencyMs === undefined || offer.latencyMs !== undefined
  return { fits: memoryKnown && latencyKnown ? true : undefined, refusals }
}

function exceeds(value: number | undefined, limit: number | undefined): boolean {
  return value !== undefined && limit !== undefined && value > limit
}

function breakEven(
  hardwarePrice: number | undefined,
  localRate: number | undefined,
  cloudRate: number | undefined,
): number | undefined {
  if (hardwarePrice === undefined || localRate === undefined || cloudRate === undefined) return undefined
  if (hardwarePrice === 0 && localRate <= cloudRate) return 0
  return cloudRate > localRate ? hardwarePrice / (cloudRate - localRate) : undefined
}

function missingInputs({ work, local, cloud }: EGpuOrCloudQuestion): string[] {
  const needed = {
    'work.cloudHours': work.cloudHours,
    'local.hardwarePrice': local.hardwarePrice,
    'local.powerWatts': local.powerWatts,
    'local.pricePerKwh': local.pricePerKwh,
    'local.relativeSpeed': local.relativeSpeed,
    'cloud.pricePerHour': cloud.pricePerHour,
    ...(work.memoryBytes === undefined
      ? {}
      : { 'local.memoryBytes': local.memoryBytes, 'cloud.memoryBytes': cloud.memoryBytes }),
    ...(work.maxLatencyMs === undefined
      ? {}
      : { 'local.latencyMs': local.latencyMs, 'cloud.latencyMs': cloud.latencyMs }),
  }
  return Object.entries(needed).flatMap(([name, value]) => (value === undefined ? [name] : []))
}

function checkInputs({ work, local, cloud }: EGpuOrCloudQuestion): void {
  const { relativeSpeed, memoryBytes: localBytes, ...localRest } = local
  const { memoryBytes: cloudBytes, ...cloudRest } = cloud
  checkKnown(requireNonNegative, { ...work })
  checkKnown(requireNonNegative, { ...localRest })
  checkKnown(requireNonNegative, { ...cloudRest })
  checkKnown(requirePositive, { relativeSpeed, 'local.memoryBytes': localBytes, 'cloud.memoryBytes': cloudBytes })
}

function product(...factors: readonly (number | undefined)[]): number | undefined {
  return factors.reduce((all, one) => (all === undefined || one === undefined ? undefined : all * one), 1)
}

function sum(first: number | undefined, second: number | undefined): number | undefined {
  return first === undefined || second === undefined ? undefined : first + second
}
