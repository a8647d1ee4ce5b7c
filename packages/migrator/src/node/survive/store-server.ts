import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { CheckpointDraft, CheckpointStore, CheckpointWriter } from '../../checkpoint/store.ts'
import { sendable } from './protocol.ts'
import type { BegunWriter, StoreAnswer, StoreCall } from './protocol.ts'

/** The parent's end: carries out what one child asks of the store, until that child is given up. */
export class StoreServer {
  readonly #store: CheckpointStore
  readonly #writers = new Map<number, CheckpointWriter>()
  readonly #readers = new Map<number, AsyncIterator<Uint8Array>>()
  #handles = 0
  #isOver = false

  constructor(store: CheckpointStore) {
    this.#store = store
  }

  async answer({ id, method, args }: StoreCall): Promise<StoreAnswer> {
    try {
      if (this.#isOver) throw new EGpuError(EGpuErrorCode.StaleEpoch, 'this process was given up')
      return { type: 'answer', id, value: await this.#carryOut(method, args) }
    } catch (error) {
      return { type: 'answer', id, error: sendable(error) }
    }
  }

  /** Whatever that child had begun is dropped; nothing it still says counts. */
  async end(): Promise<void> {
    this.#isOver = true
    await Promise.allSettled([...this.#writers.values()].map((writer) => writer.discard()))
  }

  async #carryOut(method: string, args: readonly unknown[]): Promise<unknown> {
    const [first, second, third] = args
    switch (method) {
      case 'workloads':
        return this.#store.workloads()
      case 'list':
        return this.#store.list(first as string)
      case 'acquire':
        return this.#store.acquire(first as string)
      case 'remove':
        return this.#store.remove(first as string, second as number)
      case 'begin':
        return this.#begin(first as CheckpointDraft)
      case 'append':
        return this.#writer(first).append(second as string, third as Uint8Array)
      case 'carry':
        return this.#writer(first).carry?.take(second as string, third as number) ?? 0
      case 'commit':
        return this.#writer(first).commit()
      case 'discard':
        await this.#writers.get(first as number)?.discard()
        return this.#writers.delete(first as number)
      case 'open': {
        const { progress, parts } = await this.#store.open(first as string, second as number)
        return { progress, parts }
      }
      case 'read': {
        const state = await this.#store.open(first as string, second as number)
        return this.#keep(this.#readers, state.read(third as string)[Symbol.asyncIterator]())
      }
      case 'next': {
        const next = await this.#readers.get(first as number)?.next()
        return next?.done === false ? next.value : undefined
      }
      case 'end':
        await this.#readers.get(first as number)?.return?.()
        return this.#readers.delete(first as number)
      default:
        throw new TypeError(`a store has no method ${method}`)
    }
  }

  async #begin(draft: CheckpointDraft): Promise<BegunWriter> {
    const writer = await this.#store.begin(draft)
    if (this.#isOver) {
      // Its child was given up meanwhile, and nobody would ever drop it.
      await writer.discard()
      throw new EGpuError(EGpuErrorCode.StaleEpoch, 'this process was given up')
    }
    return { handle: this.#keep(this.#writers, writer), unitBytes: writer.carry?.unitBytes }
  }

  #keep<T>(into: Map<number, T>, value: T): number {
    this.#handles += 1
    into.set(this.#handles, value)
    return this.#handles
  }

  #writer(handle: unknown): CheckpointWriter {
    const writer = this.#writers.get(handle as number)
    if (writer === undefined) throw new EGpuError(EGpuErrorCode.CheckpointFailed, 'this checkpoint is over already')
    return writer
  }
}
