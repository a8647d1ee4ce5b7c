import type { DuplexGBps } from '../types/link.ts'
import { pcieHopGBps } from './pcie.ts'
import { checkKnown, requireNonNegative, requirePositive, requireShare } from './validate.ts'

/** What one unit of work (a frame, a token, a step) asks of a GPU. Amounts that are left out count as none. */
export interface WorkloadProfile {
  readonly flops?: number | undefined
  /** Read from and written to the GPU's own memory. */
  readonly vramBytes?: number | undefined
  readonly toDeviceBytes?: number | undefined
  readonly fromDeviceBytes?: number | undefined
  /** How often the host waits for the GPU. */
  readonly roundTrips?: number | undefined
  /** Share of the compute time behind which transfers hide, 0 (the default: they alternate) to 1 (fully overlapped). */
  readonly overlap?: number | undefined
}

/** What a GPU can do on its own, whatever it is plugged into. `ComputeTarget` fits. */
export interface GpuRates {
  /** Floating-point operations per second that the workload reaches when nothing else holds it up. */
  readonly flops?: number | undefined
  readonly memoryGBps?: number | undefined
}

/** What connects a GPU. `ComputeTarget` fits. */
export interface LinkRates {
  readonly linkGBps?: DuplexGBps | undefined
  readonly latencyMs?: number | undefined
}

/**
 * A PCIe 4.0 x16 slot: the estimate of `pcieHopGBps`, within 10 % of what nvbandwidth measures (NVIDIA/nvbandwidth
 * issue 15: 23.9–27.1 GB/s), and a round trip of 1 µs (0.5–2 µs, ai-manual.ru).
 */
export const nativeSlot: LinkRates = {
  linkGBps: { toDevice: pcieHopGBps(16, 16), fromDevice: pcieHopGBps(16, 16) },
  latencyMs: 0.001,
}

/** Where the time of one unit of work goes, in milliseconds. */
export interface WorkTime {
  readonly totalMs: number
  readonly computeMs: number
  readonly vramMs: number
  /** What of the transfers does not hide behind compute. */
  readonly linkMs: number
  readonly latencyMs: number
  /** The largest part. */
  readonly boundBy: 'compute' | 'vram' | 'link' | 'latency'
}

/**
 * Time for one unit of work: `max(flops / rate, VRAM bytes / bandwidth)`, plus transfers that do not overlap with it,
 * plus round trips. `undefined` when the workload asks for something whose rate is not known. Throws `TypeError` or
 * `RangeError` for negative amounts and for rates that are not above 0.
 */
export function workTime(work: WorkloadProfile, gpu: GpuRates, link: LinkRates): WorkTime | undefined {
  const { overlap = 0, ...amounts } = work
  checkKnown(requireNonNegative, { ...amounts, latencyMs: link.latencyMs })
  checkKnown(requirePositive, { flops: gpu.flops, memoryGBps: gpu.memoryGBps, ...link.linkGBps })
  requireShare('overlap', overlap)
  const computeMs = timeFor(work.flops, gpu.flops === undefined ? undefined : gpu.flops / 1e3)
  const vramMs = timeFor(work.vramBytes, bytesPerMs(gpu.memoryGBps))
  const toMs = timeFor(work.toDeviceBytes, bytesPerMs(link.linkGBps?.toDevice))
  const fromMs = timeFor(work.fromDeviceBytes, bytesPerMs(link.linkGBps?.fromDevice))
  const latencyMs = work.roundTrips === undefined || work.roundTrips === 0 ? 0 : times(work.roundTrips, link.latencyMs)
  if (computeMs === undefined || vramMs === undefined) return undefined
  if (toMs === undefined || fromMs === undefined || latencyMs === undefined) return undefined
  const onGpuMs = Math.max(computeMs, vramMs)
  const linkMs = Math.max(0, toMs + fromMs - overlap * onGpuMs)
  const parts = { compute: computeMs, vram: vramMs, link: linkMs, latency: latencyMs }
  return { totalMs: onGpuMs + linkMs + latencyMs, computeMs, vramMs, linkMs, latencyMs, boundBy: largest(parts) }
}

/** How a workload fares on a link, against the same GPU in a slot. */
export interface EfficiencyPrediction {
  /** 0 to 1: the share of the native speed that is left. Above 1 when the link beats the slot it is compared with. */
  readonly efficiency: number
  readonly onLink: WorkTime
  readonly native: WorkTime
}

/**
 * Predicts how much of its native speed a workload keeps behind a link. Compute-bound and VRAM-bound work keep nearly
 * all, link-bound work keeps the ratio of the two links. `native` is a PCIe 4.0 x16 slot unless given. `undefined`
 * when a rate the workload depends on is unknown, or when it asks for nothing.
 */
export function predictEfficiency(
  work: WorkloadProfile,
  gpu: GpuRates,
  link: LinkRates,
  native: LinkRates = nativeSlot,
): EfficiencyPrediction | undefined {
  const onLink = workTime(work, gpu, link)
  const inSlot = workTime(work, gpu, native)
  if (onLink === undefined || inSlot === undefined || onLink.totalMs === 0) return undefined
  return { efficiency: inSlot.totalMs / onLink.totalMs, onLink, native: inSlot }
}

/** Nothing takes no time, at a rate that is not known either. */
function timeFor(amount: number | undefined, perMs: number | undefined): number | undefined {
  if (amount === undefined || amount === 0) return 0
  return perMs === undefined ? undefined : amount / perMs
}

function bytesPerMs(gBps: number | undefined): number | undefined {
  return times(1e6, gBps)
}

function times(count: number, each: number | undefined): number | undefined {
  return each === undefined ? undefined : count * each
}

function largest(parts: Readonly<Record<WorkTime['boundBy'], number>>): WorkTime['boundBy'] {
  const names = Object.keys(parts) as WorkTime['boundBy'][]
  return names.reduce((most, name) => (parts[name] > parts[most] ? name : most))
}
