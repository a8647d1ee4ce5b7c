import { abandonable, EGpuError, EGpuErrorCode } from '@egpu/core'
import type { Clock, ComputeTarget, OpenTarget, TargetLoss } from '@egpu/core'
import type { Engine } from './engine.ts'
import type { SimBuffer, SimGpu, SimKernel, SimKernelCost, SimRange, SimReadRange } from './sim-gpu.ts'
import { describe, SimMemory } from './sim-memory.ts'

/** The card, as what runs on it sees it. */
export interface TargetHost {
  readonly key: string
  readonly clock: Clock
  readonly compute: Engine
  readonly transfers: Engine
  readonly totalBytes: number
  usedBytes(): number
  /** How long moving so many bytes over the link takes now. */
  transferMs(bytes: number, direction: 'toDevice' | 'fromDevice'): number
  /** How long a kernel takes now. */
  kernelMs(cost: SimKernelCost): number
  /** A kernel began or ended; the card warms up while any runs. */
  working(change: 1 | -1): void
  closed(target: CardTarget): void
}

/** What a card does to the targets that are open on it. */
export interface CardTarget {
  /** Pid that `SafeRemovalCapability` shows as holder. */
  readonly pid: number
  readonly usedBytes: number
  /** It can no longer be used: `lost` resolves, pending calls reject. */
  end(loss: TargetLoss): void
  /** Pending calls and those to come never settle. `lost` stays pending until `end`. */
  wedge(): void
  close(): Promise<void>
}

export interface TargetBirth {
  readonly target: ComputeTarget
  readonly epoch: number
  readonly pid: number
  readonly host: TargetHost
}

/** A target opened on a simulated GPU; holds real bytes. */
export class SimTarget implements OpenTarget<SimGpu>, SimGpu, CardTarget {
  readonly target: ComputeTarget
  readonly epoch: number
  readonly pid: number
  readonly lost: Promise<TargetLoss>
  readonly #host: TargetHost
  readonly #memory = new SimMemory()
  readonly #resolveLost: (loss: TargetLoss) => void
  /** Ends the sleeps of everything under way, so that no timer outlives the device. */
  readonly #life = new AbortController()
  readonly #pending = new Set<(error: EGpuError) => void>()
  #refusal: EGpuError | undefined
  #wedged = false
  #closed = false
  #lastKernel: Promise<unknown> = Promise.resolve()
  #lastWrite: Promise<unknown> = Promise.resolve()
  #lastTransfer: Promise<unknown> = Promise.resolve()

  constructor({ target, epoch, pid, host }: TargetBirth) {
    this.target = target
    this.epoch = epoch
    this.pid = pid
    this.#host = host
    const { promise, resolve } = withResolvers<TargetLoss>()
    this.lost = promise
    this.#resolveLost = resolve
  }

  get handle(): SimGpu {
    return this
  }

  get usedBytes(): number {
    return this.#memory.usedBytes
  }

  get memory(): SimGpu['memory'] {
    return { totalBytes: this.#host.totalBytes, usedBytes: this.#host.usedBytes() }
  }

  createBuffer(byteLength: number, options: { readonly label?: string | undefined } = {}): SimBuffer {
    if (!Number.isSafeInteger(byteLength) || byteLength < 0) {
      throw new TypeError(`a buffer's length is a whole number of bytes, not ${byteLength}`)
    }
    if (this.#refusal !== undefined) throw this.#refusal
    const free = this.#host.totalBytes - this.#host.usedBytes()
    if (byteLength > free) {
      throw new EGpuError(
        EGpuErrorCode.TargetIncompatible,
        `${this.target.name} has ${free} bytes of memory left, too little for ${byteLength}`,
        { deviceId: this.#host.key },
      )
    }
    return this.#memory.create(byteLength, options.label)
  }

  destroyBuffer(buffer: SimBuffer): void {
    this.#memory.destroy(buffer)
  }

  async write(buffer: SimBuffer, data: ArrayBufferView, { byteOffset = 0, signal }: SimRange = {}): Promise<void> {
    const source = new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice()
    checkRange(buffer, byteOffset, source.byteLength)
    const after = this.#lastKernel
    await this.#call(signal, () => {
      const written = this.#host.transfers.enqueue(async () => {
        await this.#pass(this.#host.transferMs(source.byteLength, 'toDevice'))
        new Uint8Array(this.#memory.bytesOf(buffer)).set(source, byteOffset)
      }, after)
      this.#lastWrite = written
      this.#lastTransfer = written
      return written
    })
  }

  async read(buffer: SimBuffer, options: SimReadRange = {}): Promise<Uint8Array<ArrayBuffer>> {
    const { byteOffset = 0, byteLength = buffer.byteLength - byteOffset, signal } = options
    checkRange(buffer, byteOffset, byteLength)
    return this.#call(signal, () => {
      // Taken as soon as what was issued before is done, however long the link is busy: nothing later shows.
      const seen = Promise.allSettled([this.#lastKernel, this.#lastWrite]).then(() => {
        this.#life.signal.throwIfAborted()
        return new Uint8Array(this.#memory.bytesOf(buffer).slice(byteOffset, byteOffset + byteLength))
      })
      const read = this.#host.transfers.enqueue(async () => {
        const bytes = await seen
        await this.#pass(this.#host.transferMs(byteLength, 'fromDevice'))
        return bytes
      }, seen)
      this.#lastTransfer = read
      return read
    })
  }

  async copy(
    from: SimBuffer,
    to: SimBuffer,
    { signal }: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<void> {
    checkRange(to, 0, from.byteLength)
    const kernel: SimKernel = (bytes) => new Uint8Array(bytes(to)).set(new Uint8Array(bytes(from)))
    // Every byte is read once and written once.
    await this.run(kernel, { vramBytes: 2 * from.byteLength, signal })
  }

  async run(
    kernel: SimKernel,
    { signal, ...cost }: SimKernelCost & { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<void> {
    await this.#call(signal, () => {
      const done = this.#host.compute.enqueue(async () => {
        this.#life.signal.throwIfAborted()
        this.#host.working(1)
        try {
          await this.#pass(this.#host.kernelMs(cost))
        } finally {
          this.#host.working(-1)
        }
        kernel((buffer) => this.#memory.bytesOf(buffer))
      }, this.#lastWrite)
      this.#lastKernel = done
      return done
    })
  }

  async idle({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    await this.#call(signal, () => Promise.allSettled([this.#lastKernel, this.#lastWrite, this.#lastTransfer]))
  }

  end(loss: TargetLoss): void {
    if (this.#refusal !== undefined) return
    this.#refusal =
      loss.reason === 'destroyed'
        ? new EGpuError(EGpuErrorCode.Closed, loss.message, { deviceId: this.#host.key })
        : new EGpuError(EGpuErrorCode.DeviceLost, loss.message, { deviceId: this.#host.key })
    this.#life.abort(this.#refusal)
    for (const reject of this.#pending) reject(this.#refusal)
    this.#pending.clear()
    this.#memory.clear()
    this.#resolveLost(loss)
  }

  wedge(): void {
    if (this.#refusal !== undefined) return
    this.#wedged = true
    // Forgotten, not rejected: nobody will ever settle them.
    this.#pending.clear()
    this.#life.abort()
  }

  close(): Promise<void> {
    this.#closed = true
    this.end({ reason: 'destroyed', message: `${this.target.name} was closed`, atMs: this.#host.clock.now() })
    this.#host.closed(this)
    return Promise.resolve()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** Settles like `work` unless the device is lost, wedged or closed, or `signal` fires first. */
  #call<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    if (signal?.aborted === true) return Promise.reject(signal.reason)
    if (this.#wedged && !this.#closed) return abandonable(new Promise<T>(() => undefined), signal)
    if (this.#refusal !== undefined) return Promise.reject(this.#refusal)
    const { promise, resolve, reject } = withResolvers<T>()
    this.#pending.add(reject)
    work().then(
      (value) => {
        if (this.#pending.delete(reject)) resolve(value)
      },
      (error: unknown) => {
        if (this.#pending.delete(reject)) reject(error)
      },
    )
    return abandonable(promise, signal)
  }

  async #pass(ms: number): Promise<void> {
    const { signal } = this.#life
    await this.#host.clock.sleep(ms, { signal })
    // The device may have gone between the timer and this line.
    signal.throwIfAborted()
  }
}

function checkRange(buffer: SimBuffer, byteOffset: number, byteLength: number): void {
  const whole = Number.isSafeInteger(byteOffset) && Number.isSafeInteger(byteLength)
  if (whole && byteOffset >= 0 && byteLength >= 0 && byteOffset + byteLength <= buffer.byteLength) return
  throw new TypeError(`${byteLength} bytes at ${byteOffset} are not within ${describe(buffer)}`)
}

/** `Promise.withResolvers` needs Node 22. */
export function withResolvers<T>(): {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
  readonly reject: (error: unknown) => void
} {
  let resolve!: (value: T) => void
  let reject!: (error: unknown) => void
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}
