import type { ComputeTarget, OpenTarget, UnstampedEvent } from '@egpu/core'
import type { CheckpointManager } from '../checkpoint/checkpoint-manager.ts'
import type { ResolvedConfig } from '../config.ts'
import type { MigratorHost } from '../host.ts'
import type { Correlation } from '../placement/correlation.ts'
import type { DevicePast } from '../placement/device-past.ts'
import type { Quarantine } from '../placement/quarantine.ts'
import type { RateBook } from '../placement/rate-book.ts'
import type { Forecasts } from '../predictor/forecasts.ts'
import type { Memories } from '../journal/memories.ts'
import type { Occupancy } from '../placement/occupancy.ts'
import type { Stability } from '../placement/stability.ts'
import type { TargetDirectory } from '../placement/target-directory.ts'
import type { SavingLinks } from './saving-links.ts'
import type { Slots } from './slots.ts'

/** What all runs of one migrator share. */
export interface RunContext {
  readonly host: MigratorHost
  readonly config: ResolvedConfig
  readonly checkpoints: CheckpointManager
  readonly directory: TargetDirectory
  readonly occupancy: Occupancy
  readonly past: DevicePast
  readonly stability: Stability
  readonly quarantine: Quarantine
  readonly correlation: Correlation
  readonly slots: Slots
  readonly memories: Memories | undefined
  readonly rates: RateBook
  readonly links: SavingLinks
  readonly forecasts: Forecasts
  readonly cpu: { readonly target: ComputeTarget; open(): OpenTarget } | undefined
  /** Workloads that move for balance: one at a time, or all that see the same idle device go there. */
  readonly balancing: Set<string>
  /** Devices that are being disconnected on purpose, with the epoch this is about. */
  readonly departing: ReadonlyMap<string, number>
  nextMigrationId(): string
  report(event: UnstampedEvent): void
}

/** How long a call may take that does nothing but let go: `release`, `close`. */
export function graceMs({ config }: RunContext): number {
  return Math.min(config.migrationTimeoutMs, 2_000)
}
