import { EGpuError, EGpuErrorCode, EGpuPowerState, GpuDeviceState } from '@egpu/core'
import type { Checkpointable, Clock, EGpuDevice, Guest, LeaveResult, TargetLoss } from '@egpu/core'
import { assertMethods, assertObject } from './arguments.ts'
import { CheckpointManager } from './checkpoint/checkpoint-manager.ts'
import { memoryStore } from './checkpoint/memory-store.ts'
import { resolveConfig } from './config.ts'
import type { MigrationConfig } from './config.ts'
import { cpuTarget } from './cpu-target.ts'
import { withDeadline } from './deadline.ts'
import { messageOf } from './failure.ts'
import type { MigratorHost } from './host.ts'
import type { JournalRecord, MigrationJournal } from './journal/journal.ts'
import { Memories } from './journal/memories.ts'
import { Occupancy } from './placement/occupancy.ts'
import { Probes } from './placement/probes.ts'
import { Correlation } from './placement/correlation.ts'
import { checkConstraints } from './placement/constraints.ts'
import { DevicePast } from './placement/device-past.ts'
import { Quarantine } from './placement/quarantine.ts'
import { RateBook } from './placement/rate-book.ts'
import { Stability } from './placement/stability.ts'
import { TargetDirectory } from './placement/target-directory.ts'
import type { Forecast } from './predictor/failure-predictor.ts'
import { Forecasts } from './predictor/forecasts.ts'
import { SilenceWatch } from './predictor/silence-watch.ts'
import type { RunContext } from './run/context.ts'
import { respond } from './run/response.ts'
import { RunningWorkload } from './run/running-workload.ts'
import { SavingLinks } from './run/saving-links.ts'
import { Slots } from './run/slots.ts'
import type { QueuedMigration } from './run/slots.ts'
import type { RunOptions, WorkloadRun } from './run/workload-run.ts'
import type { Warning } from './strategy.ts'

const ofManager = ['find', 'targets', 'openTarget', 'on', 'addGuest', 'report']
const ofWorkload = ['restore', 'resume', 'freeze', 'suspend', 'release']

/**
 * Keeps workloads running while devices come and go: saves them, notices when their device fails or is about to leave,
 * and goes on elsewhere from the last checkpoint. Publishes what it does on the manager's event stream and leaves a
 * device before `manager.safeDisconnect` removes it.
 */
export class WorkloadMigrator implements AsyncDisposable {
  readonly checkpoints: CheckpointManager
  readonly #context: RunContext
  readonly #runs = new Map<string, RunningWorkload>()
  /** Runs that have finished and whose checkpoints are being removed. */
  readonly #ending = new Map<string, Promise<void>>()
  readonly #departing = new Map<string, number>()
  readonly #unsubscribe: readonly (() => void)[]
  readonly #silence: SilenceWatch
  readonly #ownsStore: boolean
  #migrations = 0
  #closing: Promise<void> | undefined

  /** `manager` is an `EGpuManager`. Throws a `TypeError` for a setting that cannot be. */
  constructor(manager: MigratorHost, config: MigrationConfig = {}) {
    assertMethods('the first argument must be an EGpuManager', manager, ofManager)
    const resolved = resolveConfig(config)
    const { clock } = manager
    this.#ownsStore = config.store === undefined
    this.checkpoints = new CheckpointManager(config.store ?? memoryStore(), { clock, keep: config.keep })
    const rates = new RateBook()
    const stability = new Stability(resolved.failBackAfterMs, clock.now())
    const quarantine = new Quarantine()
    const forecasts = new Forecasts()
    const memories = config.journal && this.#memories(config.journal, clock, resolved.migrationTimeoutMs)
    const cpu = config.cpu === false ? undefined : (config.cpu ?? cpuTarget)
    this.#context = {
      host: manager,
      config: resolved,
      checkpoints: this.checkpoints,
      directory: new TargetDirectory(manager),
      occupancy: new Occupancy(),
      past: new DevicePast({ clock, stability, quarantine, forecasts, memories }),
      stability,
      quarantine,
      correlation: new Correlation(),
      slots: new Slots(resolved.maxConcurrentMigrations),
      memories,
      rates,
      links: new SavingLinks(manager, rates, config.bytesPerSecond),
      forecasts,
      cpu: cpu === undefined ? undefined : { target: cpu().target, open: () => cpu() },
      balancing: new Set(),
      departing: this.#departing,
      nextMigrationId: () => `migration-${(this.#migrations += 1)}`,
      report: (event) => manager.report(event),
    }
    this.#silence = new SilenceWatch({
      clock,
      forecasts,
      isListening: () => manager.isMonitoring === true,
      isAsked: (deviceId) => {
        const device = manager.find(deviceId)
        return device !== undefined && !unasked.has(device.state) && device.powerState !== EGpuPowerState.Suspended
      },
      onNews: (deviceId, forecast) => this.#foretold(manager.find(deviceId), forecast),
    })
    this.#unsubscribe = [...this.#listen(manager), manager.addGuest(this.#guest()), ...this.#probing(manager, config)]
  }

  /** Workloads in this migrator's care. */
  get runs(): readonly WorkloadRun[] {
    return [...this.#runs.values()]
  }

  /** Migrations that wait for one of the `maxConcurrentMigrations` to end, next first. */
  get queue(): readonly QueuedMigration[] {
    return this.#context.slots.queue
  }

  /** Ids of devices that keep dying under work, which is kept away from them until an hour after the last time. */
  get quarantined(): readonly string[] {
    return this.#context.quarantine.keys(this.#context.host.clock.now())
  }

  /** Lets work onto a quarantined device again: its supply was changed, its driver updated. */
  trust(deviceId: string): void {
    this.#context.past.trust(deviceId)
    for (const run of this.#runs.values()) run.reconsider()
  }

  /**
   * What an earlier process left in the journal and nobody has run again: run a workload of the same id, and it goes on
   * from its newest checkpoint where it was. Empty without a journal.
   */
  async interrupted(): Promise<readonly JournalRecord[]> {
    return (await this.#context.memories?.interrupted()) ?? []
  }

  /**
   * Takes a workload into care: finds it a target, restores its newest checkpoint if the store has one, and sees it
   * through to its end. Throws a `TypeError` when a workload of this id is in care already, for what is no workload and for
   * constraints that cannot be, `EGPU_CLOSED` after `close`.
   */
  run(workload: Checkpointable, options: RunOptions = {}): WorkloadRun {
    if (this.#closing !== undefined) throw new EGpuError(EGpuErrorCode.Closed, 'this migrator was closed')
    assertMethods('a workload must be a Checkpointable', workload, ofWorkload)
    const { id } = workload
    if (typeof id !== 'string' || id === '') throw new TypeError('a workload needs an `id`, a text of its own')
    assertObject(`\`needs\` of the workload '${id}'`, workload.needs)
    if (typeof workload.finished?.then !== 'function') {
      throw new TypeError(`\`finished\` of the workload '${id}' must be a promise`)
    }
    checkConstraints(options.constraints ?? {})
    if (this.#runs.has(id)) throw new TypeError(`a workload with the id '${id}' is running already`)
    const run = new RunningWorkload(this.#context, workload, options, this.#ending.get(id))
    this.#runs.set(id, run)
    const end = (): void => {
      this.#runs.delete(id)
      this.#ending.set(id, run.over)
      void run.over.then(() => {
        if (this.#ending.get(id) === run.over) this.#ending.delete(id)
      })
    }
    run.finished.then(end, end)
    return run
  }

  /**
   * Tell the migrator of a failure that no driver reports. Resolves once everything that ran on the device works
   * elsewhere or is parked.
   */
  async onDeviceFailure(deviceId: string, reason: string = 'the application reported it as failed'): Promise<void> {
    await Promise.all([...this.#runs.values()].map((run) => run.deviceFailed(deviceId, reason)))
  }

  /** Closes every run after a last checkpoint. Calling it twice is fine. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#runs.values()].map((run) => run.close()))
    await Promise.all(this.#ending.values())
    for (const unsubscribe of this.#unsubscribe) unsubscribe()
    this.#silence.stop()
    await this.#context.past.settled()
    if (this.#ownsStore) await this.checkpoints.close()
  }

  #listen(manager: MigratorHost): (() => void)[] {
    const { forecasts, links, stability } = this.#context
    const there = ({ device }: { readonly device: EGpuDevice }): void => {
      stability.back(device.id, manager.clock.now())
      this.#changed()
    }
    const changed = (): void => this.#changed()
    return [
      manager.on('lost', ({ device, reason }) => this.#gone(device, 'unknown', reason)),
      manager.on('wedged', ({ device, reason }) => this.#gone(device, 'hung', reason)),
      manager.on('disconnected', ({ device, graceful }) =>
        this.#gone(device, 'unplugged', 'it is off the bus', !graceful),
      ),
      manager.on('leaving', ({ device, reason }) => this.#warn({ kind: 'leaving', device, reason })),
      manager.on('health-changed', ({ device, before, after }) => {
        if (after.level === 'good') changed()
        if (after.level === before.level || (after.level !== 'degraded' && after.level !== 'critical')) return
        this.#warn({ kind: after.level, device, reason: `its health fell to ${after.score ?? 'an unknown score'}` })
      }),
      manager.on('link-speed-changed', ({ device, before, after }) => {
        const slower = (after?.bottleneck?.effectiveGBps ?? Infinity) < (before?.bottleneck?.effectiveGBps ?? 0)
        if (slower) this.#warn({ kind: 'link-downgraded', device, reason: 'its link got slower' })
      }),
      manager.on('health-sampled', ({ device, driver, sample }) => {
        const { correctableErrors } = sample
        if (correctableErrors !== undefined) links.linkErrors(device.id, driver, correctableErrors)
        this.#foretold(device, forecasts.read(device.id, driver, sample, manager.clock.now()))
        this.#silence.heard()
      }),
      manager.on('gpu-present', changed),
      manager.on('ready', there),
      manager.on('returned', there),
      manager.on('changed', changed),
      manager.on('resynced', changed),
    ]
  }

  /** Who leaves in peace has no fault. */
  #gone(device: EGpuDevice, reason: TargetLoss['reason'], message: string, isFault: boolean = true): void {
    const { host, directory, past, forecasts, links, stability, correlation } = this.#context
    directory.invalidate()
    forecasts.gone(device.id)
    links.gone(device.id)
    if (isFault) {
      past.lost(device.id)
      const others = (host.devices ?? []).filter(({ id, state }) => id !== device.id && !deadStates.has(state))
      correlation.lost(device, others, host.enclosures ?? [], host.clock.now())
    } else {
      stability.left(device.id)
    }
    for (const run of this.#runs.values()) run.deviceGone(device, reason, message)
  }

  #changed(): void {
    this.#context.directory.invalidate()
    for (const run of this.#runs.values()) run.reconsider()
  }

  #warn(warning: Warning): void {
    const { directory, forecasts, links } = this.#context
    directory.invalidate()
    const { id } = warning.device
    const concerned = [...this.#runs.values()].filter((run) => run.isOn(id))
    respond(links, concerned, { ...warning, forecast: forecasts.of(id) })
  }

  /** `undefined` where there is nothing new to tell. */
  #foretold(device: EGpuDevice | undefined, forecast: Forecast | undefined): void {
    if (device === undefined || forecast === undefined) return
    if (forecast.alarm) {
      this.#warn({ kind: 'predicted', device, reason: reasonOf(forecast) })
      return
    }
    this.#context.links.relax(device.id)
    this.#changed()
  }

  #probing(host: MigratorHost, { probe }: MigrationConfig): (() => void)[] {
    if (probe === undefined) return []
    const probes = new Probes({ host, rates: this.#context.rates, handsOf: probe })
    for (const { id, state } of host.devices ?? []) if (!deadStates.has(state)) probes.arrived(id)
    return [
      host.on('ready', ({ device }) => probes.arrived(device.id)),
      host.on('power-state-changed', ({ device }) => probes.powerChanged(device)),
    ]
  }

  #memories(journal: MigrationJournal, clock: Clock, timeoutMs: number): Memories {
    const onFailure = (workloadId: string, cause: unknown): void => {
      const message = `the journal failed: ${messageOf(cause)}; the work itself is not affected`
      const error = new EGpuError(EGpuErrorCode.CheckpointFailed, message, { cause })
      this.#context.report({ type: 'checkpoint-failed', workloadId, error })
    }
    return new Memories({ journal, clock, timeoutMs, onFailure })
  }

  #guest(): Guest {
    return {
      name: 'migrator',
      leave: (device, { signal, deadlineMs }) => this.#leave(device, signal, deadlineMs),
      stay: ({ id }) => {
        this.#departing.delete(id)
        for (const run of this.#runs.values()) run.reconsider()
      },
    }
  }

  async #leave(
    device: EGpuDevice,
    signal: AbortSignal | undefined,
    deadlineMs: number | undefined,
  ): Promise<LeaveResult> {
    const concerned = [...this.#runs.values()].filter(({ where }) => where?.deviceId === device.id)
    const hopeless = concerned.flatMap((run) => whyNotInTime(run, deadlineMs))
    if (hopeless.length > 0) return { left: false, reason: hopeless.join('; ') }
    this.#departing.set(device.id, device.epoch)
    const staying = new Set(this.#runs.values())
    const leaving = new AbortController()
    const abandon = (): void => leaving.abort(signal?.reason)
    signal?.addEventListener('abort', abandon, { once: true })
    const leave = async (run: RunningWorkload): Promise<void> => {
      await run.leave(device.id, leaving.signal)
      staying.delete(run)
    }
    // Answered a little before the asker stops listening, so that the answer can say how far it came.
    const ms = deadlineMs === undefined ? Infinity : deadlineMs - Math.min(500, deadlineMs / 10)
    const { clock } = this.#context.host
    const all = Promise.allSettled([...staying].map(leave))
    const results = await withDeadline(() => all, { clock, ms, what: 'leaving', signal }).catch(() => undefined)
    signal?.removeEventListener('abort', abandon)
    const reasons =
      results?.flatMap((result) => (result.status === 'rejected' ? [messageOf(result.reason)] : [])) ??
      [...staying].map((run) => `${run.workload.id} has not left${progressOf(run)}`)
    if (reasons.length === 0) return { left: true, moved: concerned.map(({ workload }) => workload.id) }
    leaving.abort(new EGpuError(EGpuErrorCode.Timeout, `${device.id} is not to be left any more`))
    this.#departing.delete(device.id)
    return { left: false, reason: reasons.join('; ') }
  }
}

/** What cannot come in time is refused before anything is stopped. */
function whyNotInTime({ leaveMs, workload }: RunningWorkload, deadlineMs: number = Infinity): string[] {
  if (leaveMs === undefined || leaveMs <= deadlineMs) return []
  const seconds = (ms: number): string => (ms / 1_000).toFixed(1)
  return [`${workload.id} needs about ${seconds(leaveMs)} s to be moved, ${seconds(deadlineMs)} s are allowed`]
}

function progressOf({ transfer }: WorkloadRun): string {
  if (transfer === undefined) return ''
  const { bytesDone, bytesTotal, etaMs } = transfer
  const eta = etaMs === undefined ? '' : `, about ${(etaMs / 1_000).toFixed(1)} s more`
  return `: ${(bytesDone / 1e6).toFixed(1)} of ${(bytesTotal / 1e6).toFixed(1)} MB are over${eta}`
}

/** Nothing can be expected of a device in one of these. */
const deadStates: ReadonlySet<GpuDeviceState> = new Set([
  GpuDeviceState.Lost,
  GpuDeviceState.Wedged,
  GpuDeviceState.Removed,
])

/** Nobody asks a device in one of these how it is. */
const unasked: ReadonlySet<GpuDeviceState> = new Set([...deadStates, GpuDeviceState.Leaving])

function reasonOf({ probability, signs }: Forecast): string {
  const what = signs.map(({ signal }) => signal).join(', ')
  return `it will fail soon with a probability of ${probability.toFixed(2)}, going by its ${what}`
}
