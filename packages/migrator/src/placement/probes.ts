import type { ComputeTarget, OpenTarget } from '@egpu/core'
import { withDeadline } from '../deadline.ts'
import type { MigratorHost } from '../host.ts'
import { probeTarget } from './probe.ts'
import type { ProbeHands } from './probe.ts'
import type { RateBook } from './rate-book.ts'

/** Opening and closing a target may take longer than measuring it. */
const patienceMs = 5_000

export interface ProbesOptions {
  readonly host: MigratorHost
  readonly rates: RateBook
  readonly handsOf: (open: OpenTarget) => ProbeHands | undefined
}

/** Measures targets when they come, one at a time and in the background. A probe that fails leaves what was known. */
export class Probes {
  readonly #options: ProbesOptions
  readonly #waiting = new Set<string>()
  #isWorking = false

  constructor(options: ProbesOptions) {
    this.#options = options
  }

  /** A device is there. */
  arrived(deviceId: string): void {
    this.#waiting.add(deviceId)
    if (!this.#isWorking) void this.#work()
  }

  async #work(): Promise<void> {
    const { host, rates } = this.#options
    this.#isWorking = true
    for (const deviceId of this.#waiting) {
      this.#waiting.delete(deviceId)
      const targets = await host.targets().catch((): readonly ComputeTarget[] => [])
      for (const target of targets.filter((one) => one.deviceId === deviceId)) {
        rates.forget(target.id)
        await this.#probe(target).catch(() => undefined)
      }
    }
    this.#isWorking = false
  }

  async #probe({ id, name }: ComputeTarget): Promise<void> {
    const { host, rates, handsOf } = this.#options
    const measure = async (signal: AbortSignal): Promise<void> => {
      const open = await host.openTarget(id, { signal })
      try {
        const hands = handsOf(open)
        if (hands === undefined) return
        try {
          rates.measured(id, await probeTarget(open.target, hands, { clock: host.clock, signal }))
        } finally {
          await hands[Symbol.asyncDispose]()
        }
      } finally {
        await open.close()
      }
    }
    await withDeadline(measure, { clock: host.clock, ms: patienceMs, what: `measuring ${name}` })
  }
}
