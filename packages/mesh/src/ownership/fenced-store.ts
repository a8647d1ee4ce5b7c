import type { CheckpointStore, CheckpointWriter } from '@egpu/migrator'

/** Says whether a workload's checkpoints may be touched now; throws `EGPU_STALE_EPOCH` when not. */
export type Fence = (workloadId: string) => void

/**
 * A store that asks a fence before it gives a checkpoint to restore and before it commits one, so that an owner that was
 * overtaken without noticing neither resumes nor publishes. Closing it leaves the store open.
 */
export function fencedStore(store: CheckpointStore, fence: Fence): CheckpointStore {
  const close = (): Promise<void> => Promise.resolve()
  return {
    workloads: (options) => store.workloads(options),
    list: (workloadId, options) => store.list(workloadId, options),
    ...(store.damaged === undefined
      ? {}
      : { damaged: (id, options) => store.damaged?.(id, options) ?? Promise.resolve([]) }),
    async acquire(workloadId, options) {
      fence(workloadId)
      return store.acquire(workloadId, options)
    },
    async begin(draft, options) {
      fence(draft.workloadId)
      return fencedWriter(await store.begin(draft, options), () => fence(draft.workloadId))
    },
    async open(workloadId, generation, options) {
      fence(workloadId)
      return store.open(workloadId, generation, options)
    },
    async remove(workloadId, generation, options) {
      fence(workloadId)
      return store.remove(workloadId, generation, options)
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

function fencedWriter(writer: CheckpointWriter, fence: () => void): CheckpointWriter {
  return {
    append: (part, bytes, options) => writer.append(part, bytes, options),
    async commit(options) {
      fence()
      return writer.commit(options)
    },
    discard: () => writer.discard(),
  }
}
