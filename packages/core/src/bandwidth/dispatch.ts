import { requireNonNegative, requirePositive, requireShare } from './validate.ts'

/** What it costs to have a kernel run, beside running it. All times in microseconds. */
export interface DispatchCost {
  /**
   * Host work to record and submit one dispatch. WebGPU: 24–36 on Vulkan, 32–71 on Metal, about 95 through Python
   * (arXiv 2604.02344).
   */
  readonly dispatchUs: number
  /** One round trip to the GPU, paid each time the host waits. Thunderbolt 30–50, a native slot 0.5–2 (ai-manual.ru). */
  readonly roundTripUs: number
}

/**
 * Share of the time that is overhead, 0 to 1, when a kernel of `kernelUs` is dispatched `dispatchesPerWait` times before
 * the host waits. Recording overlaps with running, so a batch takes
 * `dispatch + (n − 1) × max(kernel, dispatch) + kernel + round trip`. Throws `TypeError` or `RangeError` for bad numbers.
 */
export function dispatchOverheadShare(kernelUs: number, cost: DispatchCost, dispatchesPerWait: number = 1): number {
  requirePositive('kernelUs', kernelUs)
  requireCost(cost)
  requireCount('dispatchesPerWait', dispatchesPerWait)
  const { dispatchUs, roundTripUs } = cost
  const total = dispatchUs + (dispatchesPerWait - 1) * Math.max(kernelUs, dispatchUs) + kernelUs + roundTripUs
  return 1 - (dispatchesPerWait * kernelUs) / total
}

/**
 * The kernel duration, in microseconds, from which on overhead takes no more than `share` of the time. It replaces the
 * rule that overhead is negligible above 1 ms: behind Thunderbolt and waited for each time, 1 ms still loses 5–8 %, and
 * 1 % takes 5–9 ms.
 */
export function breakEvenKernelUs(share: number, cost: DispatchCost, dispatchesPerWait: number = 1): number {
  requireTolerated(share)
  requireCost(cost)
  requireCount('dispatchesPerWait', dispatchesPerWait)
  const { dispatchUs, roundTripUs } = cost
  const useful = 1 - share
  const kernelBound = (useful * (dispatchUs + roundTripUs)) / (dispatchesPerWait * share)
  if (kernelBound >= dispatchUs) return kernelBound
  return (useful * (dispatchesPerWait * dispatchUs + roundTripUs)) / (dispatchesPerWait - useful)
}

/**
 * How many dispatches to submit before waiting so that overhead takes no more than `share` of the time. `undefined` when
 * no batch is long enough, because recording a dispatch takes longer than the kernel.
 */
export function breakEvenBatch(share: number, kernelUs: number, cost: DispatchCost): number | undefined {
  requireTolerated(share)
  requirePositive('kernelUs', kernelUs)
  requireCost(cost)
  const { dispatchUs, roundTripUs } = cost
  const useful = 1 - share
  if (kernelUs >= dispatchUs) return wholeBatch((useful * (dispatchUs + roundTripUs)) / (share * kernelUs))
  const gained = kernelUs - useful * dispatchUs
  return gained > 0 ? wholeBatch((useful * (kernelUs + roundTripUs)) / gained) : undefined
}

/** Rounds up, but not for the last bit of a quotient that is whole. */
function wholeBatch(dispatches: number): number {
  return Math.max(1, Math.ceil(dispatches - 1e-9))
}

function requireCost({ dispatchUs, roundTripUs }: DispatchCost): void {
  requireNonNegative('dispatchUs', dispatchUs)
  requireNonNegative('roundTripUs', roundTripUs)
}

function requireCount(name: string, value: number): void {
  requirePositive(name, value)
  if (!Number.isInteger(value)) throw new RangeError(`${name} must be a whole number, got ${value}`)
}

function requireTolerated(share: number): void {
  requireShare('share', share)
  if (share === 0 || share === 1) throw new RangeError(`share must be between 0 and 1, got ${share}`)
}
