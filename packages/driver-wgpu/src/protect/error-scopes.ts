import type { Core } from './core.ts'

interface Scope {
  readonly filter: GPUErrorFilter
  readonly pushSeq: number
  popSeq: number | undefined
  /** What the device of `epoch` says. */
  answer: { readonly epoch: number; readonly promise: Promise<GPUError | null> } | undefined
}

/** A push or a pop, for its place in the replay. */
export interface ScopeStep {
  readonly seq: number
  replay(device: GPUDevice): void
}

/**
 * Error scopes live on the device, and go with it. Those that are open, or whose answer is not there yet, are opened
 * and closed again at the same places of the replay, so that they catch what they would have caught.
 */
export class ErrorScopes {
  readonly #core: Core
  readonly #open: Scope[] = []
  readonly #unanswered = new Set<Scope>()

  constructor(core: Core) {
    this.#core = core
  }

  /** There may be errors of which nobody has heard yet. */
  get isBusy(): boolean {
    return this.#open.length > 0 || this.#unanswered.size > 0
  }

  push(filter: GPUErrorFilter): void {
    this.#core.device.pushErrorScope(filter)
    const pushSeq = this.#core.nextSeq()
    this.#open.push({ filter, pushSeq, popSeq: undefined, answer: undefined })
  }

  async pop(): Promise<GPUError | null> {
    const core = this.#core
    const scope = this.#open.pop()
    // Nothing to pop: the device says so itself.
    if (scope === undefined) return core.device.popErrorScope()
    scope.popSeq = core.nextSeq()
    scope.answer = { epoch: core.epoch, promise: core.device.popErrorScope() }
    this.#unanswered.add(scope)
    try {
      for (;;) {
        const { epoch, promise } = scope.answer
        const error = await promise.catch(() => null)
        if (error !== null) core.errorsHeard += 1
        // A lost device answers "no error"; so does a destroyed one, and that is the last word.
        await core.orDestroyed(core.confirm())
        if (core.isOver) return error
        if (scope.answer.epoch === epoch && core.epoch === epoch) return error
      }
    } finally {
      this.#unanswered.delete(scope)
    }
  }

  /** What has to be done again on the next device. */
  steps(epoch: number): readonly ScopeStep[] {
    return [...this.#unanswered, ...this.#open].flatMap((scope) => {
      const steps: ScopeStep[] = [{ seq: scope.pushSeq, replay: (device) => device.pushErrorScope(scope.filter) }]
      if (scope.popSeq !== undefined) {
        const replay = (device: GPUDevice): void => void (scope.answer = { epoch, promise: device.popErrorScope() })
        steps.push({ seq: scope.popSeq, replay })
      }
      return steps
    })
  }
}
