import { messageOf } from '../failure.ts'
import type { Wakeup } from '../wakeup.ts'
import type { Arrivals } from './arrivals.ts'
import type { Cause } from './cause.ts'
import type { RunContext } from './context.ts'
import type { Ending } from './ending.ts'
import type { Moves } from './moves.ts'
import type { Placement } from './placement.ts'

export interface PlacerOptions {
  readonly context: RunContext
  readonly workloadId: string
  readonly priority: number
  readonly arrivals: Arrivals
  readonly moves: Moves
  readonly ending: Ending
  readonly wakeup: Wakeup
  /** There is no target for it now. */
  readonly onPark: () => void
}

/** Steps 4 to 6: select a target, restore, resume; on to the next if that fails, and wait if there is none. */
export class Placer {
  readonly #options: PlacerOptions

  constructor(options: PlacerOptions) {
    this.#options = options
  }

  /** `undefined` once the run is over. */
  async place(cause: Cause): Promise<Placement | undefined> {
    const { workloadId, arrivals, moves, ending } = this.#options
    try {
      while (ending.outcome === undefined) {
        moves.settle(undefined)
        cause.slot ??= await this.slot(cause, ending.signal)
        const attempt = cause.attempt ?? (await arrivals.begin(cause))
        cause.attempt = undefined
        const placement = attempt === undefined ? undefined : await arrivals.complete(attempt, cause)
        if (placement !== undefined) return placement
        if (attempt !== undefined) continue
        cause.slot()
        cause.slot = undefined
        await this.#park()
      }
    } catch (error) {
      ending.fail(`${workloadId} could not be placed: ${messageOf(error)}`, error)
    } finally {
      cause.attempt?.end()
      cause.slot?.()
    }
    return undefined
  }

  /** Waits for the right to migrate. */
  slot({ reason }: Cause, signal: AbortSignal): Promise<() => void> {
    const { context, workloadId, priority } = this.#options
    return context.slots.acquire({ workloadId, reason, priority }, signal)
  }

  async #park(): Promise<void> {
    const { context, workloadId, arrivals, ending, wakeup, onPark } = this.#options
    const { hopeless } = arrivals
    if (hopeless !== undefined) {
      ending.fail(
        `${workloadId} failed again and again on every target that could take it, and its checkpoints are kept; at last ${hopeless.message}`,
        hopeless,
      )
      return
    }
    onPark()
    await wakeup.wait(arrivals.retryAt() - context.host.clock.now())
    context.directory.invalidate()
  }
}
