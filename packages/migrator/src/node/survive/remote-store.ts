import type { SavedState, StatePart } from '@egpu/core'
import type { CheckpointRecord, CheckpointStore } from '../../checkpoint/store.ts'
import { received } from './protocol.ts'
import type { BegunWriter, StoreAnswer, StoreCall } from './protocol.ts'

/** The child's end: a store whose memory is the parent's. */
export class RemoteStore implements CheckpointStore {
  readonly #send: (call: StoreCall) => void
  readonly #waiting = new Map<number, { resolve(value: unknown): void; reject(error: unknown): void }>()
  #calls = 0

  constructor(send: (call: StoreCall) => void) {
    this.#send = send
  }

  /** To be called with every answer that comes in. */
  answered(answer: StoreAnswer): void {
    const waiting = this.#waiting.get(answer.id)
    this.#waiting.delete(answer.id)
    if ('error' in answer) waiting?.reject(received(answer.error))
    else waiting?.resolve(answer.value)
  }

  workloads(): Promise<readonly string[]> {
    return this.#call('workloads')
  }

  list(workloadId: string): Promise<readonly CheckpointRecord[]> {
    return this.#call('list', workloadId)
  }

  acquire(workloadId: string): Promise<number> {
    return this.#call('acquire', workloadId)
  }

  remove(workloadId: string, generation: number): Promise<void> {
    return this.#call('remove', workloadId, generation)
  }

  async begin(...[draft]: Parameters<CheckpointStore['begin']>): ReturnType<CheckpointStore['begin']> {
    const { handle, unitBytes } = await this.#call<BegunWriter>('begin', draft)
    return {
      carry:
        unitBytes === undefined
          ? undefined
          : { unitBytes, take: (part, byteLength) => this.#call('carry', handle, part, byteLength) },
      append: (part, bytes) => this.#call('append', handle, part, bytes),
      commit: () => this.#call('commit', handle),
      discard: () => this.#call('discard', handle),
    }
  }

  async open(workloadId: string, generation: number): Promise<SavedState> {
    const head = await this.#call<{ progress: number; parts: StatePart[] }>('open', workloadId, generation)
    const call = <T>(method: string, ...args: readonly unknown[]): Promise<T> => this.#call<T>(method, ...args)
    return {
      ...head,
      async *read(part) {
        const handle = await call<number>('read', workloadId, generation, part)
        try {
          for (;;) {
            const bytes = await call<Uint8Array | undefined>('next', handle)
            if (bytes === undefined) return
            yield bytes
          }
        } finally {
          await call('end', handle)
        }
      },
    }
  }

  /** The parent closes its store. */
  close(): Promise<void> {
    return Promise.resolve()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #call<T>(method: string, ...args: readonly unknown[]): Promise<T> {
    this.#calls += 1
    const id = this.#calls
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve: (value) => resolve(value as T), reject })
      this.#send({ type: 'call', id, method, args })
    })
  }
}
