import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { TargetLoss } from '@egpu/core'
import { classifyLoss } from '../device/classify-loss.ts'
import { retireDevice } from '../device/held-devices.ts'
import { reconfigureCanvases } from './canvas.ts'
import type { Core } from './core.ts'
import { Incarnation } from './incarnation.ts'
import { SubmitEntry } from './log/entry.ts'
import { TextureNode } from './nodes/texture-node.ts'
import type { ProtectOptions } from './options.ts'
import { restore } from './restore.ts'
import type { Restored } from './restore.ts'
import { StandBy } from './stand-by.ts'
import type { Successor, SuccessorFinder } from './successor.ts'

/** Devices that one submit may take down before it counts as the cause. */
const killsAllowed = 2

/**
 * Brings a protected device from one incarnation to the next. There is one recovery at a time: a loss in the middle of
 * it makes it begin again, with waits that grow, until the work is known to go on or there is no hope.
 */
export class Recovery {
  readonly #finder: SuccessorFinder
  readonly #options: ProtectOptions
  #core: Core | undefined
  #standBy: StandBy | undefined
  /** Devices that were left, not lost. */
  readonly #left: WeakSet<Incarnation> = new WeakSet()
  #isRunning = false
  #wakeUp: (() => void) | undefined

  constructor(finder: SuccessorFinder, options: ProtectOptions) {
    this.#finder = finder
    this.#options = options
  }

  /** Takes charge of the first device. */
  begin(core: Core): void {
    this.#core = core
    void core.ended.promise.then(() => this.retry())
    this.#watch(core, core.incarnation)
    if (this.#options.standBy !== true) return
    this.#standBy = new StandBy(core, this.#finder, (successor) => this.incarnate(successor))
    this.#standBy.renewSoon()
  }

  incarnate(successor: Successor): Incarnation {
    const incarnation: Incarnation = new Incarnation(successor, this.#options.heartbeat ?? {}, (waitedMs) => {
      const message = `${successor.seen.name} has not finished its work for ${Math.round(waitedMs)} ms`
      if (this.#core?.incarnation === incarnation) this.#lose(this.#core, 'hung', message)
      else void retireDevice(incarnation.held)
    })
    return incarnation
  }

  /** Something changed that may help: look again now instead of at the end of the wait. */
  retry(): void {
    this.#wakeUp?.()
  }

  /** Leaves a device that works for the best adapter there is now: what is not yet saved is saved first. */
  async move(): Promise<void> {
    const core = this.#core
    if (core === undefined) return
    await core.ready()
    await core.checkpointer.run()
    this.#finder.forget()
    await this.#standBy?.drop()
    // A loss in between has begun to look already.
    if (core.isLive) {
      this.#left.add(core.incarnation)
      core.suspend()
      core.emit({ type: 'moving', epoch: core.epoch, adapter: core.incarnation.adapterName })
      this.#start(core)
    }
    await core.ready()
  }

  #watch(core: Core, incarnation: Incarnation): void {
    void incarnation.device.lost.then((info) => {
      core.lastLoss = info
      if (this.#left.has(incarnation) && !core.isDestroyWanted) return
      if (core.incarnation !== incarnation || core.isOver) return
      if (core.isDestroyWanted) {
        incarnation.stop()
        // Lost by itself in the same moment: nobody but the application ended it.
        core.end(info.reason === 'destroyed' ? info : core.lostInfo('destroyed', info.message), undefined)
        void retireDevice(incarnation.held)
        return
      }
      const reason = classifyLoss({ reason: 'unknown', message: info.message, onBus: undefined })
      this.#lose(core, reason, info.message)
    })
  }

  #lose(core: Core, reason: TargetLoss['reason'], message: string): void {
    core.suspend()
    core.stats.losses += 1
    core.emit({ type: 'lost', epoch: core.epoch, reason, message })
    this.#start(core)
  }

  #start(core: Core): void {
    if (this.#isRunning) return
    this.#isRunning = true
    void this.#recover(core)
      .catch((cause: unknown) => {
        const text = cause instanceof Error ? cause.message : String(cause)
        giveUp(core, new EGpuError(EGpuErrorCode.DeviceLost, `the recovery failed: ${text}`, { driver: 'wgpu', cause }))
      })
      .finally(() => {
        this.#isRunning = false
      })
  }

  async #recover(core: Core): Promise<void> {
    const begun = performance.now()
    const backoff = this.#options.backoffMs ?? [0, 2000, 10_000, 30_000]
    let deaths = 0
    for (let attempt = 0; !core.isOver; attempt += 1) {
      if (attempt > 0) await this.#pause(backoff[Math.min(attempt, backoff.length) - 1] ?? 0)
      const last = core.incarnation
      last.stop()
      const spare = this.#standBy?.take()
      // No device may be asked for while a lost one is still there. One that stands by need not be asked for.
      if (spare === undefined) await retireDevice(last.held)
      const next = spare ?? (await this.#findNext(core))
      if (core.isOver) {
        if (next !== undefined) await this.#discard(next)
        break
      }
      if (next === undefined) {
        if (performance.now() - begun > (this.#options.giveUpAfterMs ?? 600_000)) {
          giveUp(core, new EGpuError(EGpuErrorCode.NoTarget, 'no adapter could take over', { driver: 'wgpu' }))
          break
        }
        core.emit({ type: 'waiting', retryMs: backoff[Math.min(attempt + 1, backoff.length) - 1] ?? 0 })
        continue
      }
      core.adopt(next)
      this.#watch(core, next)
      const restored = await goOn(core, next, deaths)
      if (typeof restored === 'object') {
        finish(core, restored, performance.now() - begun)
        this.#standBy?.renewSoon(spare === undefined ? undefined : last.held)
        return
      }
      if (spare !== undefined) await retireDevice(last.held)
      if (restored === 'poisoned') break
      deaths += 1
      // One that was dead when it took over is no attempt.
      if (spare !== undefined) attempt -= 1
    }
    await this.#discard(core.incarnation)
  }

  async #findNext(core: Core): Promise<Incarnation | undefined> {
    const found = await this.#finder.find((adapter, error) => core.emit({ type: 'refused', adapter, error }))
    return found === undefined ? undefined : this.incarnate(found)
  }

  async #discard(incarnation: Incarnation): Promise<void> {
    incarnation.stop()
    await retireDevice(incarnation.held)
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#wakeUp = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

/** Does everything again on the device that took over, and lets the application go on with it. */
async function goOn(core: Core, next: Incarnation, deaths: number): Promise<Restored | 'died' | 'poisoned'> {
  const restored = deaths < killsAllowed ? replayAtOnce(core) : await replayStepwise(core, next)
  if (typeof restored === 'string') return restored
  core.resume()
  reconfigureCanvases(core)
  if ((await next.isAliveAfterWork()) && core.incarnation === next && core.isLive) return restored
  core.suspend()
  return 'died'
}

function replayAtOnce(core: Core): Restored {
  const replay = restore(core)
  for (;;) {
    const step = replay.next()
    if (step.done === true) return step.value
  }
}

/** After devices died of the replay: asks after each submit whether the device still lives, to find the one it is. */
async function replayStepwise(core: Core, next: Incarnation): Promise<Restored | 'died' | 'poisoned'> {
  // A device that dies with nothing to do is not the work's fault.
  if (!(await next.isAliveAfterWork())) return 'died'
  const replay = restore(core)
  for (;;) {
    const step = replay.next()
    if (step.done === true) return step.value
    if (!(step.value instanceof SubmitEntry) || (await next.isAliveAfterWork())) continue
    step.value.kills += 1
    if (step.value.kills < killsAllowed) return 'died'
    const labels = step.value.commands.map(({ label }) => label)
    const error = new EGpuError(
      EGpuErrorCode.WorkloadFailed,
      `a submit took down every device it was given (command buffers: ${labels.map((label) => label || 'unlabelled').join(', ')})`,
      { driver: 'wgpu' },
    )
    core.emit({ type: 'poisoned', labels, error })
    giveUp(core, error)
    return 'poisoned'
  }
}

function finish(core: Core, { entries, bytes }: Restored, rtoMs: number): void {
  core.stats.recoveries += 1
  core.stats.replayedEntries += entries
  for (const node of core.registry.all()) {
    if (!(node instanceof TextureNode) || !node.isUnsavedRead) continue
    node.isUnsavedRead = false
    core.emit({ type: 'incomplete', label: node.label, format: node.real.format })
  }
  core.emit({
    type: 'recovered',
    epoch: core.epoch,
    adapter: core.incarnation.adapterName,
    rtoMs,
    replayedEntries: entries,
    restoredBytes: bytes,
  })
}

function giveUp(core: Core, error: EGpuError): void {
  core.end(core.lostInfo('unknown', error.message), error)
  core.emit({ type: 'given-up', error })
}
