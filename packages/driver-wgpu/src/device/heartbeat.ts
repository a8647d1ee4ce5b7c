import { laterQuietly } from './timers.ts'

export interface HeartbeatOptions {
  /** How often a device in use is asked whether it lives, in milliseconds. Default 100. */
  readonly intervalMs?: number | undefined
  /** How often a device is asked that got no work for 10 s. Default 1000. */
  readonly idleIntervalMs?: number | undefined
  /** How long the device may work on one job before it counts as hung. Default 10 s, as Chrome's watchdog has it. */
  readonly hangMs?: number | undefined
}

/** After this long without a submit a device counts as idle. */
const idleAfterMs = 10_000

/** So many times within `hangMs` the device is asked whether its work is done; that costs as much as three beats. */
const questionsPerHang = 4

/**
 * Asks a device at intervals whether it still lives. An idle device never hears of its loss: Dawn looks only when
 * something is submitted, and an empty submit is enough (about 9 µs). A device that is given work anyway is left alone.
 * It does not keep Node alive.
 */
export class Heartbeat {
  readonly #queue: GPUQueue
  readonly #intervalMs: number
  readonly #idleIntervalMs: number
  readonly #hangMs: number
  readonly #onHang: (waitedMs: number) => void
  readonly #submit: GPUQueue['submit']
  #timer: { cancel(): void } | undefined
  #usedAt = performance.now()
  #beatAt = performance.now()
  #dueAt = 0
  #askedAt = Number.NEGATIVE_INFINITY
  #waiting = false
  #waitedMs = 0

  /** `onHang` is called once, when work has not come back for `hangMs`. */
  constructor(queue: GPUQueue, options: HeartbeatOptions, onHang: (waitedMs: number) => void) {
    const { intervalMs, idleIntervalMs, hangMs } = heartbeatTimes(options)
    this.#queue = queue
    this.#intervalMs = intervalMs
    this.#idleIntervalMs = idleIntervalMs
    this.#hangMs = hangMs
    this.#onHang = onHang
    this.#submit = queue.submit.bind(queue)
    // The only way to know that the device is in use. Handed on unchanged.
    queue.submit = (commandBuffers) => {
      this.#use()
      return this.#submit(commandBuffers)
    }
    const now = performance.now()
    this.#schedule(now + intervalMs, now)
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    this.#queue.submit = this.#submit
  }

  #use(): void {
    const now = performance.now()
    const wasIdle = this.#isIdle(now)
    this.#usedAt = now
    if (wasIdle && this.#timer !== undefined) {
      this.#timer.cancel()
      this.#schedule(now + this.#intervalMs, now)
    }
  }

  #isIdle(now: number): boolean {
    return now - this.#usedAt > idleAfterMs
  }

  #schedule(dueAt: number, now: number): void {
    this.#dueAt = dueAt
    this.#timer = laterQuietly(dueAt - now, this.#beat)
  }

  // Up to ten times a second in a process that does nothing else, with cold caches: one clock reading, no new closures.
  readonly #beat = (): void => {
    const now = performance.now()
    // A blocked event loop or a sleeping laptop is no hang: of a long gap between beats only a usual one counts.
    const gap = Math.min(now - this.#beatAt, 2 * this.#idleIntervalMs)
    this.#beatAt = now
    // What was submitted since has asked already, and puts the next beat off. Timers know whole milliseconds only.
    const nextAt = this.#usedAt + this.#intervalMs
    const isDue = nextAt - now < 1
    if (isDue) this.#submit([])
    if (this.#waiting) this.#waitedMs += gap
    else if (now - this.#askedAt >= this.#hangMs / questionsPerHang) this.#ask(now)
    if (this.#waitedMs > this.#hangMs) {
      this.stop()
      this.#onHang(this.#waitedMs)
      return
    }
    if (!isDue) {
      this.#schedule(nextAt, now)
      return
    }
    // A timer is always late; counted from when it was due, beats stay one interval apart.
    const from = Math.max(this.#dueAt, now - this.#intervalMs / 2)
    this.#schedule(from + (this.#isIdle(now) ? this.#idleIntervalMs : this.#intervalMs), now)
  }

  #ask(now: number): void {
    this.#waiting = true
    this.#askedAt = now
    const done = (): void => {
      this.#waiting = false
      this.#waitedMs = 0
    }
    this.#queue.onSubmittedWorkDone().then(done, done)
  }
}

/** The times that count; a `TypeError` for one that is no time. */
export function heartbeatTimes(options: HeartbeatOptions): Readonly<Record<keyof HeartbeatOptions, number>> {
  const intervalMs = positive('intervalMs', options.intervalMs ?? 100)
  const idleIntervalMs = Math.max(intervalMs, positive('idleIntervalMs', options.idleIntervalMs ?? 1000))
  return { intervalMs, idleIntervalMs, hangMs: positive('hangMs', options.hangMs ?? 10_000) }
}

function positive(name: string, value: number): number {
  if (!(value > 0)) throw new TypeError(`${name} must be a number above 0, not ${value}`)
  return value
}
