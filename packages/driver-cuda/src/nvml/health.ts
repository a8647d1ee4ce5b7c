import type { HealthSample } from '@egpu/core'
import type { RawDetails, RawHealth } from '../host/protocol.ts'

/** Everything NVML tells about a GPU's condition; what a board does not have is `undefined`. */
export interface NvidiaDetails extends HealthSample {
  readonly gpuUtilizationPercent?: number | undefined
  readonly graphicsMHz?: number | undefined
  readonly smMHz?: number | undefined
  readonly memoryMHz?: number | undefined
  /** Packets the GPU had to send again: the same count as `correctableErrors`. */
  readonly pcieReplays?: number | undefined
  readonly pcieGeneration?: number | undefined
  readonly pcieLanes?: number | undefined
  /** Measured by the GPU over the last 20 ms, 10^9 bytes per second. */
  readonly pcieGBps?: { readonly toDevice: number | undefined; readonly fromDevice: number | undefined } | undefined
  /** Over the life of the board. */
  readonly eccCorrected?: number | undefined
  readonly eccUncorrected?: number | undefined
  /** Memory pages taken out of use (before Ampere) and memory rows replaced by spares (since). */
  readonly retiredPages?: number | undefined
  readonly remappedRows?: RawDetails['remappedRows']
  /** Why the clocks are lower than they could be. */
  readonly throttledBy?: readonly string[] | undefined
  /** What the driver wants done before the GPU can be trusted again. */
  readonly recoveryAction?: RecoveryAction | undefined
}

/** nvmlDeviceGpuRecoveryAction_t. */
export type RecoveryAction = 'nothing' | 'reset-gpu' | 'reboot' | 'drain-peers' | 'drain-and-reset' | 'reset-bus'

const recoveryActions: readonly RecoveryAction[] = [
  'nothing',
  'reset-gpu',
  'reboot',
  'drain-peers',
  'drain-and-reset',
  'reset-bus',
]

/** nvmlClocksThrottleReason* of nvml.h, by bit; idling and application clocks are no throttling. */
const throttleReasons: ReadonlyMap<number, string> = new Map([
  [2, 'power-cap'],
  [3, 'hardware-slowdown'],
  [4, 'sync-boost'],
  [5, 'software-thermal'],
  [6, 'hardware-thermal'],
  [7, 'power-brake'],
  [8, 'display-clock'],
])

/** NVML's reading in the words of core. */
export function healthOf(raw: RawHealth, atMs: number): HealthSample {
  return {
    atMs,
    temperatureCelsius: raw.temperature,
    temperatureLimitCelsius: raw.slowdownTemperature,
    powerWatts: raw.powerMilliwatts === undefined ? undefined : raw.powerMilliwatts / 1_000,
    memoryUsedBytes: raw.memoryUsed,
    memoryTotalBytes: raw.memoryTotal,
    // Replays are the GPU's own count of what AER calls correctable on its link.
    correctableErrors: raw.pcieReplays,
    linkRatio: linkRatioOf(raw),
  }
}

/** Idle GPUs lower their link to save power, so only what is read under load says something about the link. */
function linkRatioOf(raw: RawHealth): number | undefined {
  const { pcieGeneration, pcieMaxGeneration, pcieLanes, pcieMaxLanes, utilization } = raw
  if (utilization === undefined || utilization === 0) return undefined
  if (!pcieGeneration || !pcieMaxGeneration || !pcieLanes || !pcieMaxLanes) return undefined
  // Each generation doubles the rate (2.5, 5, 8, 16, 32 GT/s, the third with a better code).
  return Math.min(1, (pcieLanes / pcieMaxLanes) * 2 ** (pcieGeneration - pcieMaxGeneration))
}

export function detailsOf(raw: RawDetails, atMs: number): NvidiaDetails {
  const { pcieReceivedKBps, pcieSentKBps, throttleReasons: reasons, recoveryAction } = raw
  return {
    ...healthOf(raw, atMs),
    gpuUtilizationPercent: raw.utilization,
    graphicsMHz: raw.graphicsMHz,
    smMHz: raw.smMHz,
    memoryMHz: raw.memoryMHz,
    pcieReplays: raw.pcieReplays,
    pcieGeneration: raw.pcieGeneration,
    pcieLanes: raw.pcieLanes,
    pcieGBps:
      pcieReceivedKBps === undefined && pcieSentKBps === undefined
        ? undefined
        : { toDevice: gigabytes(pcieReceivedKBps), fromDevice: gigabytes(pcieSentKBps) },
    eccCorrected: raw.eccCorrected,
    eccUncorrected: raw.eccUncorrected,
    retiredPages: raw.retiredPages,
    remappedRows: raw.remappedRows,
    throttledBy: reasons === undefined ? undefined : namesOf(reasons),
    recoveryAction: recoveryAction === undefined ? undefined : recoveryActions[recoveryAction],
  }
}

const gigabytes = (kilobytes: number | undefined): number | undefined =>
  kilobytes === undefined ? undefined : kilobytes / 1e6

function namesOf(bits: number): string[] {
  return [...throttleReasons].filter(([bit]) => (bits & (1 << bit)) !== 0).map(([, name]) => name)
}
