import type { ComputeTarget, DuplexGBps } from '@egpu/core'

/** How fast a target is, as far as it was measured. */
export interface MeasuredRates {
  readonly flops?: number | undefined
  readonly memoryGBps?: number | undefined
  readonly linkGBps?: DuplexGBps | undefined
  readonly latencyMs?: number | undefined
  /** What one dispatch costs, however little it computes. */
  readonly dispatchMs?: number | undefined
}

/** All that a cost is worked out from: measured where it was, told where it was told, assumed where it was neither. */
export interface Rates {
  readonly flops: number
  readonly memoryGBps: number
  readonly toDeviceGBps: number
  readonly fromDeviceGBps: number
  readonly latencyMs: number
  readonly dispatchMs: number
}

/** A mid-range GPU, and a desktop CPU at about a fiftieth of it. */
const assumedFlops = { gpu: 1e13, cpu: 2e11, host: 5e12 }
const assumedMemoryGBps = { gpu: 400, cpu: 40, host: 200 }

/** A Thunderbolt tunnel (2.35–2.8 GB/s contended), a PCIe 4.0 x16 slot (23.9–27.1), a 10 Gb/s network. */
const assumedLinkGBps = { removable: 2.6, internal: 25, host: 1.1 }

/** 24–36 µs on Vulkan, arXiv 2604.02344; a function call on the CPU. */
const assumedDispatchMs = { gpu: 0.03, cpu: 0.0002, host: 0.03 }

/** A round trip over a tunnel is 30–50 µs, in a slot 0.5–2 µs (ai-manual.ru). */
const assumedLatencyMs = { removable: 0.04, internal: 0.001, host: 0.2 }

export function ratesOf(target: ComputeTarget, measured: MeasuredRates = {}): Rates {
  const { kind } = target
  const place = kind === 'host' ? 'host' : target.removable ? 'removable' : 'internal'
  const linkGBps = assumedLinkGBps[place]
  return {
    flops: measured.flops ?? target.flops ?? assumedFlops[kind],
    memoryGBps: measured.memoryGBps ?? target.memoryGBps ?? assumedMemoryGBps[kind],
    toDeviceGBps: measured.linkGBps?.toDevice ?? target.linkGBps?.toDevice ?? linkGBps,
    fromDeviceGBps: measured.linkGBps?.fromDevice ?? target.linkGBps?.fromDevice ?? linkGBps,
    latencyMs: measured.latencyMs ?? target.latencyMs ?? assumedLatencyMs[place],
    dispatchMs: measured.dispatchMs ?? assumedDispatchMs[kind],
  }
}
