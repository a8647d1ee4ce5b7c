import type { ComputeTarget, OpenTarget, TargetLoss } from '@egpu/core'
import type { SimBackingDevice } from './descriptions.ts'
import type { CardTarget, TargetBirth, TargetHost } from './target.ts'
import { withResolvers } from './target.ts'

/** A target whose work runs on a real runtime: the simulated cable decides how long. */
export class BackedTarget implements OpenTarget, CardTarget {
  readonly target: ComputeTarget
  readonly epoch: number
  readonly pid: number
  readonly handle: unknown
  readonly lost: Promise<TargetLoss>
  /** The real runtime counts its own memory. */
  readonly usedBytes = 0
  readonly #host: TargetHost
  readonly #device: SimBackingDevice
  readonly #resolveLost: (loss: TargetLoss) => void
  #ended = false

  constructor({ target, epoch, pid, host }: TargetBirth, device: SimBackingDevice) {
    this.target = target
    this.epoch = epoch
    this.pid = pid
    this.handle = device.handle
    this.#host = host
    this.#device = device
    const { promise, resolve } = withResolvers<TargetLoss>()
    this.lost = promise
    this.#resolveLost = resolve
    void device.lost.then((loss) => this.end(loss))
  }

  end(loss: TargetLoss): void {
    if (this.#ended) return
    this.#ended = true
    this.#device.destroy()
    this.#resolveLost(loss)
  }

  /** A real device cannot be made to hang on request; it stays as it is until the loss is reported. */
  wedge(): void {}

  close(): Promise<void> {
    this.end({ reason: 'destroyed', message: `${this.target.name} was closed`, atMs: this.#host.clock.now() })
    this.#host.closed(this)
    return Promise.resolve()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}
