import type { Clock, TargetLoss } from '@egpu/core'
import type { Chronicle } from '../journal/chronicle.ts'
import type { DeviceRecord } from '../journal/journal.ts'
import type { Memories } from '../journal/memories.ts'
import type { Forecasts } from '../predictor/forecasts.ts'
import type { Quarantine } from './quarantine.ts'
import type { Stability } from './stability.ts'

export interface DevicePastOptions {
  readonly clock: Clock
  readonly stability: Stability
  readonly quarantine: Quarantine
  readonly forecasts: Forecasts
  readonly memories: Memories | undefined
}

/** A loss further back than this tells nothing any more. */
const memoryMs = 30 * 86_400_000
const mostFaults = 50

/** What went wrong with devices: told to everyone who goes by it, and written down so that it outlives this process. */
export class DevicePast {
  readonly #options: DevicePastOptions
  readonly #faults = new Map<string, number[]>()
  readonly #chronicles = new Map<string, Chronicle<DeviceRecord>>()
  #recalling: Promise<void> | undefined

  constructor(options: DevicePastOptions) {
    this.#options = options
  }

  /** What earlier processes knew. Nothing is decided before it resolves. */
  recall(): Promise<void> {
    return (this.#recalling ??= this.#recall())
  }

  /** It failed. Whoever notices says so; while it is away they all mean the same loss. */
  lost(key: string): void {
    const { clock, stability, forecasts } = this.#options
    const now = clock.now()
    if (!stability.lost(key, now)) return
    forecasts.failed(key, now)
    this.#faults.set(key, [...(this.#faults.get(key) ?? []), now].slice(-mostFaults))
    this.#write(key)
  }

  /** It died under this work. */
  died(key: string, workloadId: string, reason: TargetLoss['reason']): void {
    const { clock, quarantine } = this.#options
    // A driver that only knows that it is gone cannot tell a pulled cable from a supply that gave in.
    const isPull = reason === 'unplugged' || reason === 'unknown'
    quarantine.note(key, { workloadId, atMs: clock.now(), isPull })
    this.#write(key)
  }

  /** Somebody has seen to it. */
  trust(key: string): void {
    this.#options.quarantine.lift(key)
    this.#write(key)
  }

  async settled(): Promise<void> {
    await this.#recalling
    await Promise.all([...this.#chronicles.values()].map((chronicle) => chronicle.settled()))
  }

  async #recall(): Promise<void> {
    const { clock, stability, quarantine, forecasts, memories } = this.#options
    const records = (await memories?.devices()) ?? []
    const now = clock.now()
    // A clock that was set meanwhile makes nothing happen in the future.
    const ours = (wallMs: number): number => Math.min(now, now - (Date.now() - wallMs))
    for (const { key, faultsAtMs, deaths } of records) {
      const faults = faultsAtMs.map(ours).filter((atMs) => now - atMs < memoryMs)
      this.#faults.set(key, [...faults, ...(this.#faults.get(key) ?? [])])
      forecasts.failed(key, ...faults)
      stability.recall(key, faults, now)
      for (const death of deaths) quarantine.note(key, { ...death, atMs: ours(death.atMs) })
    }
  }

  #write(key: string): void {
    const { memories } = this.#options
    // Not before what is there was read: a record is replaced whole.
    if (memories !== undefined)
      void this.recall().then(() => this.#chronicleOf(memories, key).note(this.#recordOf(key)))
  }

  #chronicleOf(memories: Memories, key: string): Chronicle<DeviceRecord> {
    const known = this.#chronicles.get(key)
    if (known !== undefined) return known
    const chronicle = memories.deviceChronicle(key)
    this.#chronicles.set(key, chronicle)
    return chronicle
  }

  #recordOf(key: string): DeviceRecord {
    const { clock, quarantine } = this.#options
    const wall = (atMs: number): number => Math.round(Date.now() - (clock.now() - atMs))
    return {
      key,
      faultsAtMs: (this.#faults.get(key) ?? []).map(wall),
      deaths: quarantine.deaths(key).map((death) => ({ ...death, atMs: wall(death.atMs) })),
    }
  }
}
