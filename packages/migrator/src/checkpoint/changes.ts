import type { FrozenState, StateRange } from '@egpu/core'

/** One freeze, by when it was taken. */
export interface FreezeMark {
  readonly id: number
}

/**
 * Adds up what may have changed since the checkpoint that can be built upon. Every freeze of the workload has to be
 * noted here, also those that are never saved: each says only what changed since the one before it.
 */
export class Changes {
  #freezes: { readonly id: number; readonly changed: readonly StateRange[] | undefined }[] = []
  #base: number | undefined
  #count = 0

  note({ changed }: Pick<FrozenState, 'changed'>): FreezeMark {
    const mark = { id: (this.#count += 1) }
    this.#freezes.push({ ...mark, changed })
    // One that cannot tell outweighs all before it, and makes them of no use.
    if (changed === undefined) this.#freezes = this.#freezes.slice(-1)
    return mark
  }

  /** What that freeze may differ in from a committed generation; `undefined` where that could be anything. */
  upTo({ id }: FreezeMark): { readonly base: number; readonly changed: readonly StateRange[] } | undefined {
    if (this.#base === undefined) return undefined
    const changed: StateRange[] = []
    for (const freeze of this.#freezes) {
      if (freeze.id > id) break
      if (freeze.changed === undefined) return undefined
      changed.push(...freeze.changed)
    }
    return { base: this.#base, changed }
  }

  /** That freeze was committed as this generation, which is built upon from now on. */
  saved({ id }: FreezeMark, generation: number): void {
    this.#base = generation
    this.#freezes = this.#freezes.filter((freeze) => freeze.id > id)
  }

  /** The workload was restored, or its checkpoints are gone: nothing is known any more. */
  forget(): void {
    this.#base = undefined
    this.#freezes = []
  }
}
