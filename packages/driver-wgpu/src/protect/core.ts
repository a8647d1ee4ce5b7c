import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { deferred } from '../device/deferred.ts'
import type { Deferred } from '../device/deferred.ts'
import { Checkpointer } from './checkpointer.ts'
import { ErrorScopes } from './error-scopes.ts'
import type { ProtectionEvent } from './events.ts'
import type { Incarnation } from './incarnation.ts'
import { KeepAlive } from './keep-alive.ts'
import { DeliveredEntry, DestroyEntry, WriteBufferEntry } from './log/entry.ts'
import { fingerprint } from './log/hash.ts'
import { Log } from './log/log.ts'
import type { BufferNode } from './nodes/buffer-node.ts'
import type { Node } from './nodes/node.ts'
import type { QueryNode } from './nodes/query-node.ts'
import { Registry } from './nodes/registry.ts'
import type { TextureNode } from './nodes/texture-node.ts'
import type { ProtectOptions } from './options.ts'

/** Counters of one protected device. */
export interface ProtectionStats {
  losses: number
  recoveries: number
  checkpoints: number
  replayedEntries: number
  checkedReadbacks: number
}

/**
 * The state behind a protected device: the device it runs on now, everything needed to go on with another, and who
 * waits for what. Incarnations come and go (`recovery.ts` brings the next one); this stays.
 */
export class Core {
  readonly options: ProtectOptions
  readonly registry: Registry = new Registry()
  readonly log: Log = new Log()
  readonly scopes: ErrorScopes = new ErrorScopes(this)
  readonly checkpointer: Checkpointer
  readonly queries: Set<WeakRef<QueryNode>> = new Set()
  /** Buffers whose mapping is pending or there. */
  readonly mappedBuffers: Set<BufferNode> = new Set()
  /** The device and its queue. */
  readonly roots: Node[] = []
  /** Canvas contexts that show what this device draws. */
  readonly canvases: Set<WeakRef<GPUCanvasContext>> = new Set()
  readonly stats: ProtectionStats = {
    losses: 0,
    recoveries: 0,
    checkpoints: 0,
    replayedEntries: 0,
    checkedReadbacks: 0,
  }
  /** Errors that the application was told of: each may mean work of its that was not done. */
  errorsHeard = 0
  lastLoss: GPUDeviceLostInfo | undefined
  /** The application called `destroy`. The reason `destroyed` alone does not say so: Chromium has it for other ends too. */
  isDestroyWanted = false
  readonly ended: Deferred<GPUDeviceLostInfo> = deferred()
  /** Hears of every object that is made. */
  onRegister: ((node: Node) => void) | undefined
  #incarnation: Incarnation
  #recovering: Deferred<void> | undefined
  #failure: EGpuError | undefined
  #isDestroyed = false
  #seq = 0
  readonly #keepAlive = new KeepAlive()
  #confirming: { readonly upTo: number; readonly promise: Promise<void> } | undefined

  constructor(first: Incarnation, options: ProtectOptions) {
    this.options = options
    this.#incarnation = first
    this.checkpointer = new Checkpointer(this, options.checkpoint ?? {})
  }

  get device(): GPUDevice {
    return this.#incarnation.device
  }

  get incarnation(): Incarnation {
    return this.#incarnation
  }

  get epoch(): number {
    return this.#incarnation.epoch
  }

  /** The device can be given work. Otherwise work is only noted, and done when the next device is there. */
  get isLive(): boolean {
    return this.#recovering === undefined && !this.isOver
  }

  /** There will be no other device. */
  get isOver(): boolean {
    return this.#isDestroyed || this.#failure !== undefined
  }

  nextSeq(): number {
    this.#seq += 1
    return this.#seq
  }

  register(node: Node): void {
    this.registry.add(node)
    this.onRegister?.(node)
  }

  /** A listener that throws is not the recovery's trouble: its error goes where errors of event listeners go. */
  emit(event: ProtectionEvent): void {
    try {
      this.options.onEvent?.(event)
    } catch (error) {
      queueMicrotask(() => {
        throw error
      })
    }
  }

  /** From here on work is only noted. */
  suspend(): void {
    this.#recovering ??= deferred()
    // Whoever waits asks through `ready`; nobody may be waiting.
    this.#recovering.promise.catch(() => {})
  }

  /** The next device takes the place of the last. */
  adopt(next: Incarnation): void {
    next.epoch = this.epoch + 1
    this.#incarnation = next
    for (const root of this.roots) root.rebuild(next.device)
  }

  resume(): void {
    const recovering = this.#recovering
    this.#recovering = undefined
    recovering?.resolve()
  }

  /** Looks like one the device would give, which nobody else can make. */
  lostInfo(reason: GPUDeviceLostReason, message: string): GPUDeviceLostInfo {
    const prototype = this.lastLoss === undefined ? Object.prototype : (Object.getPrototypeOf(this.lastLoss) as object)
    const property = (value: string): PropertyDescriptor => ({ value, enumerable: true })
    return Object.create(prototype, { reason: property(reason), message: property(message) }) as GPUDeviceLostInfo
  }

  /** Ends it for good: destroyed by the application, or given up. */
  end(info: GPUDeviceLostInfo, failure: EGpuError | undefined): void {
    if (this.isOver) return
    if (failure === undefined) this.#isDestroyed = true
    else this.#failure = failure
    for (const buffer of this.mappedBuffers) {
      buffer.cancelMap?.(new DOMException(info.message, 'AbortError'))
    }
    this.ended.resolve(info)
    this.#recovering?.resolve()
  }

  /** Resolves when there is a device to work with. Rejects when there will be none. */
  async ready(): Promise<void> {
    while (this.#recovering !== undefined && !this.isOver) await this.#keepAlive.during(this.#recovering.promise)
    if (this.#failure !== undefined) throw this.#failure
    if (this.#isDestroyed) throw new EGpuError(EGpuErrorCode.Closed, 'the device was destroyed', { driver: 'wgpu' })
  }

  /** Resolves once everything submitted so far was really done, on whichever device. */
  confirm(): Promise<void> {
    // Those who ask in one go get one answer.
    if (this.#confirming?.upTo === this.#seq) return this.#confirming.promise
    const promise = this.#confirm()
    const confirming = { upTo: this.#seq, promise }
    this.#confirming = confirming
    const done = (): void => {
      if (this.#confirming === confirming) this.#confirming = undefined
    }
    promise.then(done, done)
    return promise
  }

  async #confirm(): Promise<void> {
    for (;;) {
      await this.ready()
      const incarnation = this.#incarnation
      const isAlive = await this.#keepAlive.during(incarnation.isAliveAfterWork())
      if (!isAlive || incarnation !== this.#incarnation || !this.isLive) continue
      await this.#keepAlive.during(this.checkpointer.relieve())
      return
    }
  }

  /** Repeats a question to the device until the one that answered is known to have lived. */
  async untilCertain<T>(ask: () => Promise<T>): Promise<T> {
    for (;;) {
      await this.orDestroyed(this.ready())
      const { epoch } = this
      const answer = await this.#keepAlive.during(
        ask().then(
          (value) => ({ value }),
          (error: unknown) => ({ error }),
        ),
      )
      await this.orDestroyed(this.confirm())
      if (this.epoch !== epoch) continue
      if ('error' in answer) throw answer.error
      return answer.value
    }
  }

  /** A destroyed device still answers, as a bare one does: without waiting for another. */
  async orDestroyed(waiting: Promise<void>): Promise<void> {
    try {
      await waiting
    } catch (error) {
      if (!this.#isDestroyed) throw error
    }
  }

  /** Bytes of a buffer as they are after everything submitted so far. The caller's to keep. */
  async readBack(node: BufferNode, offset: number, size: number): Promise<Uint8Array<ArrayBuffer>> {
    const seq = this.nextSeq()
    for (;;) {
      await this.ready()
      const incarnation = this.#incarnation
      const bytes = await this.#keepAlive.during(incarnation.read(node.real, offset, size))
      if (bytes === undefined || incarnation !== this.#incarnation || !this.isLive) continue
      this.log.add(new DeliveredEntry(seq, node, offset, size, fingerprint(bytes)))
      return bytes
    }
  }

  /** What the application wrote into a mapping. */
  writeMapped(node: BufferNode, offset: number, data: Uint8Array<ArrayBuffer>): void {
    const entry = new WriteBufferEntry(this.nextSeq(), node, offset, data)
    this.log.add(entry)
    if (node.isMappable) {
      node.hostContent ??= new Uint8Array(node.size)
      node.hostContent.set(data, offset)
    }
    if (this.isLive) entry.replay(this)
    this.checkpointer.consider()
  }

  noteDestroyed(node: BufferNode | TextureNode | QueryNode): void {
    this.log.add(new DestroyEntry(this.nextSeq(), node))
  }

  /** Reads again what was delivered, and compares. */
  checkDelivered({ node, offset, size, hash }: DeliveredEntry): void {
    const { incarnation } = this
    void incarnation.read(node.real, offset, size).then((bytes) => {
      if (bytes === undefined || incarnation !== this.#incarnation) return
      this.stats.checkedReadbacks += 1
      if (fingerprint(bytes) !== hash) this.emit({ type: 'diverged', label: node.label, offset, size })
    })
  }
}
