import type { CheckpointStore } from '@egpu/migrator'

/** A store whose checkpoints stay for as long as somebody sends them, whatever the migrator's retention says. */
export class Pins {
  readonly #store: CheckpointStore
  readonly #pins = new Map<string, number>()
  readonly #due = new Map<string, () => Promise<void>>()

  constructor(store: CheckpointStore) {
    this.#store = store
  }

  /** Keeps a checkpoint until the result is called, which removes it if that was asked for meanwhile. */
  pin(workloadId: string, generation: number): () => Promise<void> {
    const key = keyOf(workloadId, generation)
    this.#pins.set(key, (this.#pins.get(key) ?? 0) + 1)
    return async () => {
      const left = (this.#pins.get(key) ?? 1) - 1
      if (left > 0) {
        this.#pins.set(key, left)
        return
      }
      this.#pins.delete(key)
      const remove = this.#due.get(key)
      this.#due.delete(key)
      await remove?.()
    }
  }

  /** The store to hand to whoever removes checkpoints. Closing it leaves the store open. */
  get store(): CheckpointStore {
    const store = this.#store
    const close = (): Promise<void> => Promise.resolve()
    return {
      workloads: (options) => store.workloads(options),
      list: (workloadId, options) => store.list(workloadId, options),
      damaged: (workloadId, options) => store.damaged?.(workloadId, options) ?? Promise.resolve([]),
      acquire: (workloadId, options) => store.acquire(workloadId, options),
      begin: (draft, options) => store.begin(draft, options),
      open: (workloadId, generation, options) => store.open(workloadId, generation, options),
      remove: async (workloadId, generation, options) => {
        const key = keyOf(workloadId, generation)
        if (this.#pins.has(key)) this.#due.set(key, () => store.remove(workloadId, generation))
        else await store.remove(workloadId, generation, options)
      },
      close,
      [Symbol.asyncDispose]: close,
    }
  }
}

function keyOf(workloadId: string, generation: number): string {
  return `${generation}/${workloadId}`
}
