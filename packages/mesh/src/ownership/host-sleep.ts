import { uptime } from 'node:os'
import { systemClock, type Clock } from '@egpu/core'

/** Since when a host may have been asleep. */
export interface SleepMeter {
  /** Milliseconds of sleep since it was made that `clock.now()` has not counted. */
  sleptMs(): number
}

/** What two clocks of one host may differ by without a sleep: `/proc/uptime` has hundredths of seconds, a container's seconds. */
const toleranceMs = 1_000

/**
 * `performance.now()` stands still on Linux while the host sleeps (CLOCK_MONOTONIC), and a lease does not. The uptime goes on
 * (CLOCK_BOOTTIME). On macOS and Windows the clock counts sleep itself. `upMs` is a parameter for tests.
 */
export function sleepMeter(clock: Clock, upMs: () => number = uptimeFor(clock)): SleepMeter {
  // In this order, and below in the other one, so that a pause in between is never taken for sleep.
  const now = clock.now()
  const ahead = upMs() - now
  return {
    sleptMs: () => {
      const up = upMs()
      const more = up - clock.now() - ahead
      return more > toleranceMs ? more : 0
    },
  }
}

/** A clock of a simulation does not sleep. */
function uptimeFor(clock: Clock): () => number {
  const isReal = clock === systemClock && process.platform === 'linux'
  return isReal ? () => uptime() * 1_000 : () => clock.now()
}
