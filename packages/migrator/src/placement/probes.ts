import { EGpuPowerState } from '@egpu/core'
import type { AbortOptions, ComputeTarget, EGpuDevice, OpenTarget } from '@egpu/core'
import { withDeadline } from '../deadline.ts'
import type { MigratorHost } from '../host.ts'
import { probeTarget } from './probe.ts'
import type { ProbeHands } from './probe.ts'
import type { RateBook } from './rate-book.ts'

/** Opening and closing a target may take longer than measuring it. */
const patienceMs = 5_000

/** Gives the hands to measure an open target with; `undefined` where it has none. */
export type ProbeWith = (
  open: OpenTarget,
  options: Required<AbortOptions>,
) => ProbeHands | undefined | Promise<ProbeHands | undefined>

export interface ProbesOptions {
  readonly host: MigratorHost
  readonly rates: RateBook
  readonly handsOf: ProbeWith
}

/**
 * Measures targets when they come, one at a time and in the background; of a device that sleeps, once it is awake. A
 * probe that fails leaves what was known.
 */
export class Probes {
  readonly #options: ProbesOptions
  readonly #waiting = new Set<string>()
  readonly #asleep = new Set<string>()
  #isWorking = false

  constructor(options: ProbesOptions) {
    this.#options = options
  }

  /** A device is there. */
  arrived(deviceId: string): void {
    this.#waiting.add(deviceId)
    if (!this.#isWorking) void this.#work()
  }

  /** It may have been woken. */
  powerChanged({ id, powerState }: EGpuDevice): void {
    if (powerState !== EGpuPowerState.Suspended && this.#asleep.delete(id)) this.arrived(id)
  }

  async #work(): Promise<void> {
    const { host, rates } = this.#options
    this.#isWorking = true
    for (const deviceId of this.#waiting) {
      this.#waiting.delete(deviceId)
      if (host.find(deviceId)?.powerState === EGpuPowerState.Suspended) {
        this.#asleep.add(deviceId)
        continue
      }
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
        const hands = await handsOf(open, { signal })
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
