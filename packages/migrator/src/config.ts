import type { ComputeTarget, OpenTarget } from '@egpu/core'
import { assertBoolean, assertMethods, assertObject } from './arguments.ts'
import type { Retention } from './checkpoint/retention.ts'
import type { CheckpointStore } from './checkpoint/store.ts'
import type { MigrationJournal } from './journal/journal.ts'
import { checkConstraints } from './placement/constraints.ts'
import type { PlacementConstraints } from './placement/constraints.ts'
import type { ProbeWith } from './placement/probes.ts'
import { MigrationStrategy } from './strategy.ts'
import type { MigrationPolicy } from './strategy.ts'

/** What the state of work on a target comes over. */
export interface TargetLink {
  readonly target: ComputeTarget
  /** As measured (`probe`, or by a driver), else as its driver tells; `undefined` where nobody can. */
  readonly fromDeviceGBps: number | undefined
}

/** How a `WorkloadMigrator` behaves. Everything has a default. */
export interface MigrationConfig {
  /** When work moves; one of `MigrationStrategy` or your own. Default `MigrationStrategy.Eager`. */
  readonly strategy?: MigrationPolicy | undefined
  /** How many workloads may be on their way at once; the others wait, most urgent first. Default 4. */
  readonly maxConcurrentMigrations?: number | undefined
  /** How long one attempt to move onto one target may take before the next target is tried. Default 30,000. */
  readonly migrationTimeoutMs?: number | undefined
  /**
   * How long work that can be copied ahead (`Checkpointable.stage`) may stand still for a move, as far as the link lets
   * it. Default 100.
   */
  readonly downtimeMs?: number | undefined
  /** Where any work may run; `run` takes more for one workload. Default: everywhere. */
  readonly constraints?: PlacementConstraints | undefined
  /** After a failure go to the CPU at once, before any other GPU. Default false: the CPU comes last. */
  readonly preferCpuFallback?: boolean | undefined
  /** Where checkpoints go. Default `memoryStore()`. The migrator closes only a store it made itself. */
  readonly store?: CheckpointStore | undefined
  /**
   * Time between two checkpoints of a workload. By default it follows from what its checkpoints cost and how often its
   * device is lost, within `checkpointOverhead`.
   */
  readonly checkpointIntervalMs?: number | undefined
  /** Share of the time that checkpoints may cost a workload. Default 0.035. Of no effect with a fixed interval. */
  readonly checkpointOverhead?: number | undefined
  /**
   * Most that saving may take of a target's link, in bytes per second: one number for all, or what your function makes of
   * a link; `undefined`, or what is no number above 0, is no limit. It falls by itself while the link counts errors, and
   * does not hold back a save for which the work stands still. Default: half of what is known of the link of a device
   * that can be pulled, no limit otherwise.
   */
  readonly bytesPerSecond?: number | ((link: TargetLink) => number | undefined) | undefined
  /** Which checkpoints of a workload stay, by number, age and size. Default: the newest 2, which always stay. */
  readonly keep?: Partial<Retention> | undefined
  /**
   * How long a device must be back without trouble before work returns to it. It doubles each time the device is lost
   * again soon after. Default 5,000; `Infinity` never goes back.
   */
  readonly failBackAfterMs?: number | undefined
  /**
   * Where the migrator writes down what it knows of its workloads besides their checkpoints: a later process then goes on
   * where this one was. `directoryJournal()` of `@egpu/migrator/node`, or your own. You close it. Default: none.
   */
  readonly journal?: MigrationJournal | undefined
  /**
   * What an open target is measured with when its device comes, for up to 100 ms: link and speed as they are, not as
   * their labels say. A driver may have it: `probeHands` of `@egpu/driver-wgpu`. Opens each target once; that of a device
   * which is known to sleep, after it woke. Default: nothing is measured.
   */
  readonly probe?: ProbeWith | undefined
  /** The processor as a target, or `false` to leave it out. Default `cpuTarget()`. */
  readonly cpu?: (() => OpenTarget) | false | undefined
}

export interface ResolvedConfig {
  readonly strategy: MigrationPolicy
  readonly maxConcurrentMigrations: number
  readonly migrationTimeoutMs: number
  readonly downtimeMs: number
  readonly constraints: PlacementConstraints
  readonly preferCpuFallback: boolean
  readonly checkpointIntervalMs: number | undefined
  readonly checkpointOverhead: number
  readonly failBackAfterMs: number
}

/** Fills in the defaults; `TypeError` names the first value that cannot be. */
export function resolveConfig(config: MigrationConfig): ResolvedConfig {
  assertObject('the settings of a migrator', config)
  const strategy: MigrationPolicy = config.strategy ?? MigrationStrategy.Eager
  if (typeof strategy?.onWarning !== 'function')
    throw new TypeError('strategy must be a policy object with onWarning()')
  const { bytesPerSecond = Infinity, constraints = {}, store, journal, keep, preferCpuFallback, cpu } = config
  checkConstraints(constraints)
  assertBoolean('preferCpuFallback', preferCpuFallback)
  if (store !== undefined) assertMethods('store must be a CheckpointStore such as directoryStore(path)', store, ofStore)
  if (journal !== undefined) {
    assertMethods('journal must be a MigrationJournal such as directoryJournal(path)', journal, ofJournal)
  }
  if (keep !== undefined) assertObject('keep', keep)
  if (cpu !== undefined && cpu !== false && typeof cpu !== 'function') {
    throw new TypeError('cpu must be a function that gives a target, or false to leave the processor out')
  }
  if (typeof bytesPerSecond !== 'function') positive('bytesPerSecond', bytesPerSecond)
  return {
    strategy,
    maxConcurrentMigrations: wholeFrom1('maxConcurrentMigrations', config.maxConcurrentMigrations ?? 4),
    migrationTimeoutMs: positive('migrationTimeoutMs', config.migrationTimeoutMs ?? 30_000),
    downtimeMs: positive('downtimeMs', config.downtimeMs ?? 100),
    constraints,
    preferCpuFallback: preferCpuFallback ?? false,
    checkpointIntervalMs:
      config.checkpointIntervalMs === undefined
        ? undefined
        : positive('checkpointIntervalMs', config.checkpointIntervalMs),
    checkpointOverhead: share('checkpointOverhead', config.checkpointOverhead ?? 0.035),
    failBackAfterMs: notNegative('failBackAfterMs', config.failBackAfterMs ?? 5_000),
  }
}

const ofStore = ['workloads', 'list', 'acquire', 'begin', 'open', 'remove', 'close']
const ofJournal = ['load', 'write', 'remove', 'close']

function wholeFrom1(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 1) return value
  throw new TypeError(`${name} must be a whole number from 1 up, not ${value}`)
}

function share(name: string, value: number): number {
  if (typeof value === 'number' && value > 0 && value <= 1) return value
  throw new TypeError(`${name} must be more than 0 and at most 1, not ${value}`)
}

function positive(name: string, value: number): number {
  if (typeof value === 'number' && value > 0) return value
  throw new TypeError(`${name} must be more than 0, not ${value}`)
}

function notNegative(name: string, value: number): number {
  if (typeof value === 'number' && value >= 0) return value
  throw new TypeError(`${name} must be 0 or more, not ${value}`)
}
