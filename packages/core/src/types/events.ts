import type { EGpuError } from '../error.ts'
import type { ResyncReason } from '../driver/events.ts'
import type { EGpuDevice, EGpuPowerState } from './device.ts'
import type { Enclosure } from './enclosure.ts'
import type { Finding } from './finding.ts'
import type { HealthSample, HealthScore } from './health.ts'
import type { LinkReport } from './link.ts'
import type { ComputeTarget } from './target.ts'

/** A migration, as its events name it. */
export interface MigrationInfo {
  readonly migrationId: string
  readonly workloadId: string
  readonly from: ComputeTarget | undefined
  readonly to: ComputeTarget | undefined
  readonly reason: 'device-lost' | 'device-leaving' | 'device-failing' | 'returned' | 'rebalance' | 'requested'
}

/** How a finished migration went. */
export interface MigrationOutcome extends MigrationInfo {
  /** From the first sign of the loss, or the request, until the workload worked again. */
  readonly rtoMs: number
  /** Units of work that had to be done again. */
  readonly lostProgress: number
  /** Progress the workload resumed from. */
  readonly resumedAt: number
}

/** What a migration is doing. A step that is not needed is left out. */
export type MigrationStep =
  /** Waits for its turn. */
  | 'queued'
  /** A target was chosen and room on it booked. */
  | 'reserved'
  /** It is open, and can take the workload. */
  | 'checked'
  /** State is on its way, while the work goes on if the source lives. */
  | 'transferring'
  /** The work stands still from here on. */
  | 'frozen'
  | 'restored'
  /** What arrived is what was sent. */
  | 'verified'
  /** Whoever owned the workload before is shut out. */
  | 'committed'
  /** The source is let go of. */
  | 'released'
  /** Undone: the work goes on where it was. */
  | 'rolled-back'

/** How far a transfer is. */
export interface TransferProgress {
  readonly bytesDone: number
  /** As known now: what the work changes meanwhile adds to it. */
  readonly bytesTotal: number
  /** At the present rate; `undefined` while there is none. */
  readonly etaMs?: number | undefined
}

interface EventPayloads {
  /** A box appeared on a cable. It may not be authorized, and may hold no GPU. */
  'enclosure-connected': { readonly enclosure: Enclosure }
  'enclosure-changed': { readonly enclosure: Enclosure }
  'enclosure-disconnected': { readonly enclosure: Enclosure }
  /** A GPU, external or not, is on the bus. It may not be usable yet. */
  'gpu-present': { readonly device: EGpuDevice }
  /** An external GPU is on the bus; comes right after its `gpu-present`. */
  connected: { readonly device: EGpuDevice }
  /** Its driver is bound and its nodes can be opened. */
  ready: { readonly device: EGpuDevice }
  /** Something known about it changed that has no event of its own. */
  changed: { readonly device: EGpuDevice }
  /** First sign that it goes: announced, or its cable is out already. Never delayed. */
  leaving: { readonly device: EGpuDevice; readonly reason: string }
  /** It is gone without warning, or died. Everything opened on it is void; `device.epoch` has risen. */
  lost: { readonly device: EGpuDevice; readonly reason: string }
  /** It is still listed but dead. */
  wedged: { readonly device: EGpuDevice; readonly reason: string }
  /** It is off the bus. `graceful` after a safe eject. */
  disconnected: { readonly device: EGpuDevice; readonly graceful: boolean }
  /** It was here before and is back; comes right after its `gpu-present`. */
  returned: { readonly device: EGpuDevice; readonly awayMs: number }
  'link-speed-changed': {
    readonly device: EGpuDevice
    readonly before: LinkReport | undefined
    readonly after: LinkReport | undefined
  }
  'power-state-changed': {
    readonly device: EGpuDevice
    readonly before: EGpuPowerState | undefined
    readonly after: EGpuPowerState | undefined
  }
  /** One reading, of one driver. Only for who asks for it by name: a stream of all events leaves it out. */
  'health-sampled': { readonly device: EGpuDevice; readonly driver: string; readonly sample: HealthSample }
  'health-changed': { readonly device: EGpuDevice; readonly before: HealthScore; readonly after: HealthScore }
  'migration-started': { readonly migration: MigrationInfo }
  'migration-step': {
    readonly migration: MigrationInfo
    readonly step: MigrationStep
    readonly progress?: TransferProgress | undefined
  }
  'migration-completed': { readonly migration: MigrationOutcome }
  'migration-failed': { readonly migration: MigrationInfo; readonly error: EGpuError }
  'checkpoint-saved': {
    readonly workloadId: string
    readonly progress: number
    readonly bytes: number
    readonly pauseMs: number
  }
  'checkpoint-failed': { readonly workloadId: string; readonly error: EGpuError }
  /** What a doctor would say changed; the whole list as it is now. */
  'findings-changed': { readonly findings: readonly Finding[] }
  /** A driver saw everything afresh after it may have missed something; differences came as events before this. */
  resynced: { readonly driver: string; readonly reason: ResyncReason }
  /** A driver broke or broke a rule. Other drivers go on; so does this one if `fatal` is false. */
  'driver-failed': { readonly driver: string; readonly error: EGpuError; readonly fatal: boolean }
  /** A listener threw. It stays subscribed, and the others were called. */
  'listener-failed': { readonly event: string; readonly error: unknown }
}

/** Names of everything a manager can report. */
export type EGpuEventType = keyof EventPayloads

/** One thing that happened, told apart by `type`. */
export type EGpuEvent<T extends EGpuEventType = EGpuEventType> = {
  [K in T]: { readonly type: K; readonly atMs: number } & EventPayloads[K]
}[T]

/** An event before its manager stamps the time. */
export type UnstampedEvent<T extends EGpuEventType = EGpuEventType> = {
  [K in T]: { readonly type: K } & EventPayloads[K]
}[T]
