import { abandonable, EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, Checkpointable, ComputeTarget, EGpuDevice, TargetLoss, TransferProgress } from '@egpu/core'
import type { RescueCandidate } from '../checkpoint/rescue.ts'
import type { CheckpointRecord } from '../checkpoint/store.ts'
import type { Warning, WarningAnswer } from '../strategy.ts'
import type { RunContext } from './context.ts'
import { Life } from './life.ts'
import { partsOf } from './parts.ts'
import type { RunParts } from './parts.ts'
import type { Placement } from './placement.ts'
import type { Warned } from './response.ts'
import { RunState } from './workload-run.ts'
import type { RunOptions, WorkloadRun } from './workload-run.ts'

/** One workload in care, as its user, the migrator and its devices see it; what they want is noted for its `Life`. */
export class RunningWorkload implements WorkloadRun, Warned {
  readonly workload: Checkpointable
  readonly finished: Promise<void>
  /** Resolves, never rejects, when `finished` has settled and nothing is left to be cleaned up. */
  readonly over: Promise<void>
  readonly started: Promise<ComputeTarget>
  readonly #parts: RunParts

  /** `after`: an earlier run of the same workload that is still being cleaned up. */
  constructor(context: RunContext, workload: Checkpointable, options: RunOptions, after: Promise<void> | undefined) {
    this.workload = workload
    this.#parts = partsOf(context, workload, options)
    this.started = this.#parts.started.promise
    this.finished = new Life(this.#parts).live(after)
    this.over = this.#cleanUp(options.keepCheckpoints ?? false)
  }

  get state(): RunState {
    return this.#parts.station.state
  }

  get where(): ComputeTarget | undefined {
    return this.#parts.station.where
  }

  get latestCheckpoint(): CheckpointRecord | undefined {
    return this.#parts.saver.latest
  }

  get transfer(): TransferProgress | undefined {
    const { station, moves } = this.#parts
    return station.state === RunState.Moving || moves.next !== undefined ? station.transfer : undefined
  }

  /** How long it will probably take to get it off its device; `undefined` before anything of the kind was seen. */
  get leaveMs(): number | undefined {
    const { moveMs, saveMs } = this.#parts.situation.view
    return moveMs ?? saveMs
  }

  get candidate(): RescueCandidate {
    const { saver, situation } = this.#parts
    const { id } = this.workload
    return { id, bytes: saver.dueBytes, freezeMs: saver.cost?.pauseMs, gain: situation.atStake }
  }

  checkpoint({ signal }: AbortOptions = {}): Promise<CheckpointRecord> {
    const { ending, schedule } = this.#parts
    if (ending.outcome !== undefined) return Promise.reject(ending.closed())
    return abandonable(schedule.request(), signal)
  }

  async moveTo(targetId: string, { signal }: AbortOptions = {}): Promise<ComputeTarget> {
    if (typeof targetId !== 'string' || targetId === '') {
      throw new TypeError('moveTo needs the id of a target; manager.targets() says which there are')
    }
    const { moves } = this.#parts
    if (this.where?.id !== targetId) {
      await moves.outcome(moves.add({ reason: 'requested', targetId, mayPark: false }), signal)
    }
    const { where } = this
    if (where?.id === targetId) return where
    throw new EGpuError(EGpuErrorCode.MigrationFailed, `${this.workload.id} was moved on from ${targetId} at once`)
  }

  async close(): Promise<void> {
    this.#parts.ending.close()
    await this.over
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** A device died or left the bus: if the work is on it, or about to be, that stay is over. */
  deviceGone(device: EGpuDevice, reason: TargetLoss['reason'], message: string): void {
    for (const stay of this.#stays()) {
      if (stay.target.deviceId !== device.id || stay.open.epoch > device.epoch) continue
      stay.lose({ reason, message, atMs: this.#now() })
    }
  }

  /** The application knows better than any driver that this device failed. */
  async deviceFailed(deviceId: string, reason: string): Promise<void> {
    const stays = this.#stays().filter(({ target }) => target.deviceId === deviceId)
    for (const stay of stays) stay.lose({ reason: 'unknown', message: reason, atMs: this.#now() })
    if (stays.length > 0) await this.#parts.station.settled()
  }

  isOn(deviceId: string): boolean {
    return this.where?.deviceId === deviceId && this.#parts.ending.outcome === undefined
  }

  answer(warning: Warning): WarningAnswer {
    return this.#parts.situation.answer(warning)
  }

  act(answer: WarningAnswer, { kind, device }: Warning): void {
    const { moves } = this.#parts
    if (answer === 'checkpoint' || answer === 'shorten') this.saveSoon()
    if (answer !== 'move' || moves.isLeaving(device.id)) return
    const reason = kind === 'leaving' ? 'device-leaving' : 'device-failing'
    // Where it cannot go it stays, with a fresh checkpoint; the failure itself was published.
    moves.add({ reason, offDeviceId: device.id, mayPark: false }).done.promise.catch(() => this.saveSoon())
  }

  saveSoon(): void {
    this.#parts.schedule.soon()
  }

  /** Resolves once nothing of this workload is on the device; rejects with what keeps it there. */
  async leave(deviceId: string, signal?: AbortSignal): Promise<void> {
    const { ending, moves } = this.#parts
    if (ending.outcome !== undefined || !this.#stays().some(({ target }) => target.deviceId === deviceId)) return
    await moves.outcome(moves.add({ reason: 'device-leaving', offDeviceId: deviceId, mayPark: true }), signal)
  }

  /** Targets came or changed. */
  reconsider(): void {
    const { homes, reviews, station, wakeup } = this.#parts
    if (!homes.isAway && station.state !== RunState.Parked) return
    reviews.soon()
    wakeup.notify()
  }

  /** After whoever waits for the end has heard of it: until then the checkpoints are all there is. */
  async #cleanUp(keepCheckpoints: boolean): Promise<void> {
    const { saver, recollection } = this.#parts
    try {
      await this.finished
      if (!keepCheckpoints) await saver.forget()
      await recollection.forget()
    } catch {
      // Work that did not finish keeps its checkpoints, and its entry.
      await recollection.keep()
    }
  }

  #stays(): readonly Placement[] {
    const { station, arrivals } = this.#parts
    return [station.placement, arrivals.arriving].filter((stay) => stay !== undefined)
  }

  #now(): number {
    return this.#parts.context.host.clock.now()
  }
}
