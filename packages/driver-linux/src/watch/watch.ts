import { systemClock } from '@egpu/core'
import type { AbortOptions, Clock } from '@egpu/core'
import { EventQueue } from '@egpu/core/driver'
import type { DriverEvent } from '@egpu/core/driver'
import { openFirstSource } from './open-source.ts'
import type { SourceCandidate, SourceRefusal } from './open-source.ts'
import { reduce } from './reduce.ts'
import type { SourceMessage, UeventSource, UeventSourceKind } from './source.ts'
import { initialState, nextDueMs } from './state.ts'
import type { View, WatchEffect, WatchMessage, WatchState, WatchTimes } from './state.ts'
import { sourceFindings } from './watch-findings.ts'

/** Where a watch gets its events from, and why not from a better place. */
export interface EventSourceStatus {
  readonly kind: UeventSourceKind
  /** Sources that come before it, each with the reason why it is not in use. */
  readonly refusals: readonly SourceRefusal[]
}

/** What a watch needs of the machine. */
export interface WatchContext {
  readonly clock?: Clock | undefined
  /** Reads everything, passively. */
  look(options: AbortOptions): Promise<View>
  /** In the order they are tried. */
  readonly sources: readonly SourceCandidate[]
  onSource?(status: EventSourceStatus): void
  /** Which of these devices have no card in a slot above them any more. */
  absentOf?(keys: readonly string[], view: View): readonly string[]
  /** Milliseconds since boot, time asleep included (`/proc/uptime`). */
  uptimeMs?(): number | undefined
  /** Told of everything the source says, before it is judged. */
  onSourceMessage?(message: SourceMessage, atMs: number): void
  /** Told of every event before anybody reads it. */
  onEvent?(event: DriverEvent): void
  /** The watch is over, however it ended. */
  onEnd?(): void
  /** Calls back when a safe removal of a device begins and when it has failed; returns how to unsubscribe. */
  onRemoval?(listener: (key: string, expected: boolean) => void): () => void
  /** Between two looks at everything that no event asked for. */
  readonly safetyRescanMs?: number | undefined
  readonly times?: Partial<WatchTimes> | undefined
}

const defaultSafetyRescanMs = 30_000

/** More than this between the two clocks means that the machine slept. */
const asleepMs = 1_000

/** The machine counts as booting until this long after its start: udev and boltd settle within it. */
const bootMs = 120_000

/** So much unread that the listener has fallen behind: one `resync` then says it all. */
const mostPending = 10_000

/**
 * Watches the machine: subscribes, looks, and turns every event from then on into what it means. Runs until `signal`
 * aborts; throws only when there is no source of events left.
 */
export function watchMachine(context: WatchContext, { signal }: Required<AbortOptions>): EventQueue<DriverEvent> {
  const watch = new Watch(context, signal)
  void watch.run()
  return watch.queue
}

class Watch {
  readonly queue: EventQueue<DriverEvent>
  readonly #context: WatchContext
  readonly #clock: Clock
  readonly #ended = new AbortController()
  #state: WatchState
  #view: View | undefined
  #source: UeventSource | undefined
  #status: EventSourceStatus | undefined
  /** Sources that broke while they were in use, and may work again. */
  readonly #broken = new Set<UeventSourceKind>()
  #timer: AbortController | undefined
  #timerDueMs: number | undefined
  #asleepBeforeMs: number | undefined
  #checkedSleepMs = Number.NEGATIVE_INFINITY

  constructor(context: WatchContext, signal: AbortSignal | undefined) {
    this.#context = context
    this.#clock = context.clock ?? systemClock
    const uptimeMs = context.uptimeMs?.()
    const bootUntilMs =
      uptimeMs === undefined ? Number.NEGATIVE_INFINITY : this.#clock.now() + Math.max(bootMs - uptimeMs, -1)
    this.#state = initialState({ bootUntilMs, ...context.times })
    this.#asleepBeforeMs = this.#asleep()
    const end = (): void => {
      this.#ended.abort()
      context.onEnd?.()
    }
    this.queue = new EventQueue({ signal, onEnd: end })
    if (signal?.aborted === true) this.#ended.abort()
  }

  async run(): Promise<void> {
    const { signal } = this.#ended
    const forget = this.#context.onRemoval?.((key, expected) => {
      this.#handle({ type: 'removal-expected', key, expected })
    })
    try {
      await this.#open(this.#context.sources)
      this.#handle({ type: 'resync', reason: 'started' })
      for (;;) {
        const heard = this.#state.sequence.last
        await this.#clock.sleep(this.#context.safetyRescanMs ?? defaultSafetyRescanMs, { signal })
        await this.#safetyRescan(heard)
        await this.#repair()
      }
    } catch (error) {
      if (!signal.aborted) this.queue.fail(error)
    } finally {
      forget?.()
      this.#timer?.abort()
      await this.#source?.close()
    }
  }

  async #open(candidates: readonly SourceCandidate[], earlier: readonly SourceRefusal[] = []): Promise<void> {
    const { signal } = this.#ended
    const listener = (message: SourceMessage): void => this.#onSource(message)
    const { kind, source, refusals } = await openFirstSource(candidates, listener, { signal })
    if (signal.aborted) await source.close()
    this.#source = source
    this.#status = { kind, refusals: [...earlier, ...refusals] }
    this.#context.onSource?.(this.#status)
  }

  #onSource(message: SourceMessage): void {
    this.#checkSleep()
    this.#context.onSourceMessage?.(message, this.#clock.now())
    this.#handle({ type: 'source', message })
    if (message.type !== 'failed') return
    if (this.#source !== undefined) this.#broken.add(this.#source.kind)
    void this.#replaceSource(message.reason)
  }

  /** Goes on with the next source. Between the two, events may have been missed. */
  async #replaceSource(reason: string): Promise<void> {
    const broken = this.#source
    if (broken === undefined) return
    this.#source = undefined
    await broken.close()
    const { sources } = this.#context
    const kind = this.#status?.kind ?? broken.kind
    const at = sources.findIndex((candidate) => candidate.kind === kind)
    try {
      await this.#open(sources.slice(at + 1), [...(this.#status?.refusals ?? []), { kind, reason }])
      this.#handle({ type: 'source', message: { type: 'overflow' } })
    } catch (error) {
      if (!this.#ended.signal.aborted) this.queue.fail(error)
    }
  }

  /** Goes back to a better source that broke, once it works again. */
  async #repair(): Promise<void> {
    const current = this.#source
    const kinds = this.#context.sources.map(({ kind }) => kind)
    const rank = (kind: UeventSourceKind | undefined): number => kinds.findIndex((one) => one === kind)
    const better = this.#context.sources.filter(
      ({ kind }) => this.#broken.has(kind) && rank(kind) < rank(this.#status?.kind),
    )
    if (current === undefined || better.length === 0) return
    const refusals = this.#status?.refusals.filter(({ kind }) => rank(kind) < rank(better[0]?.kind))
    try {
      await this.#open(better, refusals)
    } catch {
      return // still broken
    }
    await current.close()
    this.#broken.clear()
    this.#handle({ type: 'source', message: { type: 'overflow' } })
  }

  /** A look that no event asked for. If it shows changes that no event announced, the source is deaf. */
  async #safetyRescan(heard: number | undefined): Promise<void> {
    this.#checkSleep()
    const before = fingerprint(this.#state)
    const silent = this.#state.sequence.last === heard
    this.#handle({ type: 'resync', reason: 'safety-rescan' })
    await this.#settled()
    const deaf = silent && this.#view?.seqnum !== undefined && fingerprint(this.#state) !== before
    if (deaf && this.#source !== undefined && this.#source.kind !== 'poll') {
      await this.#replaceSource('it stayed silent while the machine changed: events do not reach this namespace')
    }
  }

  /** The resync that was asked for is done. */
  async #settled(): Promise<void> {
    while (this.#state.resync !== undefined && !this.#ended.signal.aborted) {
      await this.#clock.sleep(this.#state.options.spacingMs, { signal: this.#ended.signal })
    }
  }

  #handle(message: WatchMessage): void {
    if (this.#ended.signal.aborted) return
    const { state, effects } = reduce(this.#state, message, this.#clock.now())
    this.#state = state
    for (const effect of effects) this.#do(effect)
    this.#arm()
  }

  #do(effect: WatchEffect): void {
    switch (effect.do) {
      case 'emit':
        this.#emit(effect.event)
        return
      case 'look':
        void this.#look().then((view) => {
          if (view !== undefined) this.#handle({ type: 'looked', view })
        })
        return
      case 'check-presence': {
        const keys = this.#view === undefined ? [] : (this.#context.absentOf?.(effect.keys, this.#view) ?? [])
        // At once: the next event of the same batch may already say that the device is off the bus.
        if (keys.length > 0) this.#handle({ type: 'absent', keys })
      }
    }
  }

  #emit(event: DriverEvent): void {
    this.#context.onEvent?.(event)
    const behind = this.queue.pending >= mostPending
    if (behind && event.type === 'resync') this.queue.clear()
    this.queue.push(event)
    if (behind && event.type !== 'resync' && this.#state.resync === undefined) {
      queueMicrotask(() => this.#handle({ type: 'resync', reason: 'overflow' }))
    }
  }

  async #look(): Promise<View | undefined> {
    try {
      const view = await this.#context.look({ signal: this.#ended.signal })
      this.#view = view
      const { kind, refusals } = this.#status ?? {}
      const own = kind === undefined ? [] : sourceFindings(kind, refusals ?? [])
      return { ...view, snapshot: { ...view.snapshot, findings: [...view.snapshot.findings, ...own] } }
    } catch (error) {
      if (!this.#ended.signal.aborted) this.queue.fail(error)
      return undefined
    }
  }

  /** One timer, for whatever is due first. */
  #arm(): void {
    const dueMs = nextDueMs(this.#state)
    if (dueMs === this.#timerDueMs) return
    this.#timer?.abort()
    this.#timerDueMs = dueMs
    if (dueMs === undefined || this.#ended.signal.aborted) return
    const timer = new AbortController()
    this.#timer = timer
    this.#clock.sleep(Math.max(0, dueMs - this.#clock.now()), { signal: timer.signal }).then(
      () => {
        this.#timerDueMs = undefined
        this.#handle({ type: 'time' })
      },
      () => {},
    )
  }

  /** How long the machine has slept in all: boot time counts sleep, the monotonic clock does not. */
  #asleep(): number | undefined {
    const beforeMs = this.#clock.now()
    const uptimeMs = this.#context.uptimeMs?.()
    // On a busy machine, time passes between the two: that is no sleep, and no way to tell it.
    if (uptimeMs === undefined || this.#clock.now() - beforeMs > asleepMs / 2) return undefined
    return uptimeMs - beforeMs
  }

  #checkSleep(): void {
    const nowMs = this.#clock.now()
    if (nowMs - this.#checkedSleepMs < asleepMs) return
    this.#checkedSleepMs = nowMs
    const before = this.#asleepBeforeMs
    const now = this.#asleep()
    if (now === undefined) return
    this.#asleepBeforeMs = now
    if (before !== undefined && now - before > asleepMs) this.#handle({ type: 'resync', reason: 'resumed' })
  }
}

/** What is where, for telling whether anything changed. */
function fingerprint({ devices, enclosures }: WatchState): string {
  const stages = [...devices].map(([key, { observation }]) => [key, observation.kernelDriver])
  return JSON.stringify([stages, [...enclosures.keys()]])
}
