import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { Checkpointable, ComputeTarget, MigrationInfo, MigrationStep, TransferProgress } from '@egpu/core'
import { withDeadline } from '../deadline.ts'
import { messageOf } from '../failure.ts'
import { incompatibility } from '../placement/compatibility.ts'
import type { RunContext } from './context.ts'
import { quiet } from './deferred.ts'
import { Placement } from './placement.ts'
import type { Refusals } from './refusals.ts'

/** What an attempt tells of why it was made. */
export interface AttemptCause {
  readonly reason: MigrationInfo['reason']
  readonly from: ComputeTarget | undefined
  readonly since: number
  readonly progress: number
}

/**
 * One try to bring a workload onto one target, and the events about it: `migration-started`, then exactly one of
 * `migration-completed` and `migration-failed`. The first placement of a workload is no migration and tells only of
 * failures.
 */
export class Attempt {
  readonly #context: RunContext
  readonly #workload: Pick<Checkpointable, 'id' | 'needs'>
  readonly #cause: AttemptCause
  readonly #isFirst: boolean
  readonly #refusals: Refusals
  readonly #migrationId: string
  #target: ComputeTarget | undefined
  #giveBack: () => void = () => undefined
  #placement: Placement | undefined
  /** Started, and neither completed nor failed yet. */
  #isOpen = false

  constructor(
    context: RunContext,
    workload: Pick<Checkpointable, 'id' | 'needs'>,
    cause: AttemptCause,
    refusals: Refusals,
    isFirst: boolean,
  ) {
    this.#context = context
    this.#workload = workload
    this.#cause = cause
    this.#refusals = refusals
    this.#isFirst = isFirst
    this.#migrationId = context.nextMigrationId()
  }

  get target(): ComputeTarget | undefined {
    return this.#target
  }

  aim(target: ComputeTarget, giveBack: () => void): void {
    this.#target = target
    this.#giveBack = giveBack
    if (this.#isFirst) return
    this.#isOpen = true
    this.#context.report({ type: 'migration-started', migration: this.#info() })
    this.step('reserved')
  }

  step(step: MigrationStep, progress?: TransferProgress): void {
    if (this.#isOpen) this.#context.report({ type: 'migration-step', migration: this.#info(), step, progress })
  }

  /** Opens the target, once. */
  async open(signal: AbortSignal, onLoss: () => void): Promise<Placement> {
    if (this.#placement !== undefined) return this.#placement
    const { cpu, host, config } = this.#context
    const target = this.#target as ComputeTarget
    const open = await withDeadline(
      async (inner) => (target === cpu?.target ? cpu.open() : host.openTarget(target.id, { signal: inner })),
      {
        clock: host.clock,
        ms: config.migrationTimeoutMs,
        signal,
        what: `opening ${target.name}`,
        onLate: (late) => quiet(late.close()),
      },
    )
    this.#placement = new Placement(open, host.clock, this.#giveBack, onLoss)
    this.#check(open.target)
    this.step('checked')
    return this.#placement
  }

  /** Open, a target may tell more than its listing did: before anything is torn down it has to fit. */
  #check(target: ComputeTarget): void {
    const { needs, id } = this.#workload
    const others = this.#context.occupancy.of(target.id).bytes - (needs.memoryBytes ?? 0)
    const reason = this.#refusals.forbidden(target) ?? incompatibility(needs, target, Math.max(0, others))
    if (reason === undefined) return
    throw new EGpuError(EGpuErrorCode.TargetIncompatible, `${target.name} cannot take ${id}: it ${reason}`, {
      deviceId: target.deviceId,
    })
  }

  /** `progress`: how far the work had come. */
  succeed(resumedAt: number, progress: number): void {
    this.#isOpen = false
    if (this.#isFirst) return
    const rtoMs = this.#context.host.clock.now() - this.#cause.since
    const lostProgress = Math.max(0, progress - resumedAt)
    this.#context.report({
      type: 'migration-completed',
      migration: { ...this.#info(), rtoMs, lostProgress, resumedAt },
    })
  }

  fail(cause: unknown): void {
    this.#isOpen = false
    const to = this.#target === undefined ? '' : ` to ${this.#target.name}`
    const error = new EGpuError(
      EGpuErrorCode.MigrationFailed,
      `${this.#workload.id} could not move${to}: ${messageOf(cause)}`,
      {
        cause,
        deviceId: this.#target?.deviceId,
      },
    )
    this.#context.report({ type: 'migration-failed', migration: this.#info(), error })
  }

  /** There was nowhere to go, or the strategy named nowhere. */
  failWithoutTarget(error: EGpuError): void {
    const migration = { ...this.#info(), migrationId: this.#context.nextMigrationId() }
    this.#context.report({ type: 'migration-failed', migration, error })
  }

  /** Gives back what was booked and opened. A migration that nothing was told of since its start was called off. */
  end(): void {
    if (this.#isOpen) this.fail(new EGpuError(EGpuErrorCode.Closed, 'the run was over before it arrived'))
    this.#giveBack()
    if (this.#placement !== undefined) quiet(this.#placement.end(this.#context.config.migrationTimeoutMs))
  }

  #info(): MigrationInfo {
    const { reason, from } = this.#cause
    return { migrationId: this.#migrationId, workloadId: this.#workload.id, from, to: this.#target, reason }
  }
}
