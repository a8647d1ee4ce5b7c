import { GpuDeviceState } from '@egpu/core'
import type { Checkpointable, ComputeTarget, MigrationInfo, WorkloadNeeds } from '@egpu/core'
import { journalTarget } from '../journal/journal.ts'
import type { JournalTarget } from '../journal/journal.ts'
import { incompatibility } from '../placement/compatibility.ts'
import { chooseTarget } from '../placement/planner.ts'
import { standingKey } from '../placement/stability.ts'
import { deviceRefusal } from './choice.ts'
import type { RunContext } from './context.ts'
import type { Refusals } from './refusals.ts'

/** Where the work should go back to now, if anywhere, and when to look again. */
export interface HomeReview {
  readonly go?: { readonly targetId: string; readonly reason: MigrationInfo['reason'] } | undefined
  readonly againAt: number
}

/** How often to look for a home whose driver does not tell when it returns. */
const lookAgainMs = 5_000

/** The targets a workload was driven from, first home first. */
export class Homes {
  readonly #context: RunContext
  readonly #workloadId: string
  readonly #needs: WorkloadNeeds
  readonly #refusals: Refusals
  readonly #homes: JournalTarget[] = []

  constructor(context: RunContext, { id, needs }: Pick<Checkpointable, 'id' | 'needs'>, refusals: Refusals) {
    this.#context = context
    this.#workloadId = id
    this.#needs = needs
    this.#refusals = refusals
  }

  get isAway(): boolean {
    return this.#homes.length > 0 && this.#context.config.failBackAfterMs < Infinity
  }

  /** What is to be remembered. */
  get memory(): readonly JournalTarget[] {
    return this.#homes.map(journalTarget)
  }

  drivenFrom(target: JournalTarget): void {
    if (!this.#homes.some((home) => isSamePlace(home, target))) this.#homes.push(target)
  }

  /** Back at a home, those it was driven from later no longer matter. */
  arrivedAt(target: ComputeTarget): void {
    const place = this.#homes.findIndex((home) => isSamePlace(home, target))
    if (place !== -1) this.#homes.length = place
  }

  /** The user wants it where it is now. */
  forget(): void {
    this.#homes.length = 0
  }

  /** Home if it is back and has stayed; from the CPU also to any other GPU that stands as firmly. */
  async review(here: ComputeTarget): Promise<HomeReview> {
    const { directory, host, occupancy, quarantine } = this.#context
    const targets = await directory.list()
    const now = host.clock.now()
    let againAt = now + lookAgainMs
    for (const home of this.#homes) {
      const target = targets.find((candidate) => isSamePlace(candidate, home))
      const isBarred = target && quarantine.reason(standingKey(target), this.#workloadId, now) !== undefined
      if (isBarred === true) continue
      if (target === undefined || this.#refusal(target, now) !== undefined) continue
      if (incompatibility(this.#needs, target, occupancy.of(target.id).bytes) !== undefined) continue
      const trustedAt = this.#trustedAt(target, now)
      if (trustedAt <= now) return { go: { targetId: target.id, reason: 'returned' }, againAt }
      againAt = Math.min(againAt, trustedAt)
    }
    if (here.kind !== 'cpu') return { againAt }
    const gpu = chooseTarget({
      needs: this.#needs,
      targets: targets.filter(({ kind }) => kind === 'gpu'),
      use: (id) => occupancy.of(id),
      refuse: (target) =>
        this.#refusal(target, now) ??
        quarantine.reason(standingKey(target), this.#workloadId, now) ??
        (this.#trustedAt(target, now) > now ? 'has not been back for long' : undefined),
    })
    return gpu === undefined ? { againAt } : { go: { targetId: gpu.id, reason: 'rebalance' }, againAt }
  }

  #refusal(target: ComputeTarget, now: number): string | undefined {
    const { host } = this.#context
    const refusal = deviceRefusal(this.#context, target) ?? this.#refusals.reason(target, now)
    if (refusal !== undefined || target.deviceId === undefined) return refusal
    if (this.#context.forecasts.isAlarmed(target.deviceId)) return 'is expected to fail'
    return host.find(target.deviceId)?.state === GpuDeviceState.Degraded ? 'is degraded' : undefined
  }

  /** It can be opened, so it is back, since now at the latest. */
  #trustedAt(target: ComputeTarget, now: number): number {
    const { stability } = this.#context
    stability.back(standingKey(target), now)
    return stability.trustedAt(standingKey(target))
  }
}

function isSamePlace(a: JournalTarget, b: JournalTarget): boolean {
  return a.id === b.id || (a.deviceId !== undefined && a.deviceId === b.deviceId && a.runtime === b.runtime)
}
