import type { Clock } from '@egpu/core'
import type { OwnershipState } from './coordinator.ts'

export interface StatesOptions<T> {
  look(): Promise<T>
  /** Calls `changed` whenever it is worth looking again. */
  subscribe(changed: () => void): void
  isSame(a: T, b: T): boolean
  /** Until the next look, if nothing changes: a subscription that broke is silent. */
  waitMs(): number
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** What is there now and after every change, until the signal fires. While it cannot be looked at, nothing is said. */
export async function* states<T>(options: StatesOptions<T>): AsyncGenerator<T> {
  const { clock, signal } = options
  let wake = new AbortController()
  options.subscribe(() => wake.abort())
  let last: T | undefined
  while (!signal.aborted) {
    wake = new AbortController()
    try {
      const now = await options.look()
      if (last === undefined || !options.isSame(last, now)) yield now
      last = now
    } catch {
      // The next look tells.
    }
    await clock.sleep(options.waitMs(), { signal: AbortSignal.any([signal, wake.signal]) }).catch(() => undefined)
  }
}

export function isSameState(a: OwnershipState, b: OwnershipState): boolean {
  if (a.kind === 'free' || b.kind === 'free') return a.kind === b.kind && tokenOf(a) === tokenOf(b)
  return a.kind === b.kind && a.ownership.token === b.ownership.token && a.ownership.owner === b.ownership.owner
}

function tokenOf(state: OwnershipState): number {
  return state.kind === 'free' ? state.lastToken : state.ownership.token
}
