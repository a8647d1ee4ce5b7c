import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { SavedState } from '@egpu/core'
import { pageBytes, Pages } from './pages.ts'
import { PartTally } from './part-tally.ts'
import type { CheckpointDraft, CheckpointRecord, CheckpointStore, CheckpointWriter } from './store.ts'

interface Kept {
  readonly record: CheckpointRecord
  readonly parts: ReadonlyMap<string, Pages>
}

interface Shelf {
  token: number
  generation: number
  /** Newest first. */
  kept: Kept[]
}

/** Keeps checkpoints in this process's memory: they outlive every device, and die with the process. */
export function memoryStore(): CheckpointStore {
  const shelves = new Map<string, Shelf>()
  const shelfOf = (workloadId: string): Shelf => {
    const known = shelves.get(workloadId)
    if (known !== undefined) return known
    const shelf: Shelf = { token: 0, generation: 0, kept: [] }
    shelves.set(workloadId, shelf)
    return shelf
  }
  const close = (): Promise<void> => {
    shelves.clear()
    return Promise.resolve()
  }
  return {
    async workloads() {
      return [...shelves].filter(([, shelf]) => shelf.kept.length > 0).map(([id]) => id)
    },
    async list(workloadId) {
      return (shelves.get(workloadId)?.kept ?? []).map(({ record }) => record)
    },
    async acquire(workloadId) {
      const shelf = shelfOf(workloadId)
      shelf.token += 1
      return shelf.token
    },
    async begin(draft) {
      return write(shelfOf(draft.workloadId), draft)
    },
    async open(workloadId, generation) {
      const kept = shelves.get(workloadId)?.kept.find(({ record }) => record.generation === generation)
      if (kept === undefined) {
        throw new EGpuError(EGpuErrorCode.CheckpointNotFound, `no checkpoint ${generation} of ${workloadId} in memory`)
      }
      return savedState(kept)
    },
    async remove(workloadId, generation) {
      const shelf = shelves.get(workloadId)
      if (shelf !== undefined) shelf.kept = shelf.kept.filter(({ record }) => record.generation !== generation)
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

function write(shelf: Shelf, draft: CheckpointDraft): CheckpointWriter {
  const refuseStale = (): void => {
    if (draft.token === shelf.token) return
    throw new EGpuError(
      EGpuErrorCode.StaleEpoch,
      `another writer took over the checkpoints of ${draft.workloadId}; nothing was written`,
    )
  }
  refuseStale()
  const tally = new PartTally(draft)
  let parts: Map<string, Pages> | undefined = new Map(
    tally.parts.map(({ name, byteLength }) => [name, new Pages(byteLength)]),
  )
  const base = shelf.kept.find(({ record }) => record.generation === draft.base)?.parts
  return {
    async append(part, bytes) {
      tally.add(part, bytes.byteLength)
      parts?.get(part)?.append(bytes)
    },
    carry:
      base === undefined
        ? undefined
        : {
            unitBytes: pageBytes,
            async take(part, byteLength) {
              const from = base.get(part)
              const into = parts?.get(part)
              if (from === undefined || into === undefined) return 0
              for (let taken = 0; ;) {
                const more = taken < byteLength ? into.share(from, byteLength - taken) : 0
                if (more === 0) return taken
                tally.add(part, more)
                taken += more
              }
            },
          },
    async commit({ signal } = {}) {
      signal?.throwIfAborted()
      refuseStale()
      tally.finish()
      if (parts === undefined) throw new EGpuError(EGpuErrorCode.CheckpointFailed, 'this checkpoint was discarded')
      shelf.generation += 1
      const record: CheckpointRecord = {
        workloadId: draft.workloadId,
        generation: shelf.generation,
        progress: draft.progress,
        parts: draft.parts,
        byteLength: draft.parts.reduce((sum, { byteLength }) => sum + byteLength, 0),
        savedAtMs: Date.now(),
      }
      shelf.kept = [{ record, parts }, ...shelf.kept]
      parts = undefined
      return record
    },
    async discard() {
      parts = undefined
    },
  }
}

function savedState({ record, parts }: Kept): SavedState {
  return {
    progress: record.progress,
    parts: record.parts,
    async *read(part, { signal } = {}) {
      const found = parts.get(part)
      if (found === undefined)
        throw new EGpuError(EGpuErrorCode.CheckpointNotFound, `the checkpoint has no part '${part}'`)
      for (const page of found.pages) {
        signal?.throwIfAborted()
        yield page
      }
    },
  }
}
