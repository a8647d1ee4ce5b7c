import type { ComputeTarget } from '@egpu/core'
import { withDeadline } from '../deadline.ts'
import type { MigratorHost } from '../host.ts'

/** A list of targets older than this is asked for again even if no event said that it changed. */
const maxAgeMs = 1_000

/** How long a listing may take before the last known one has to do: a driver with a dead device may hang in it. */
const patienceMs = 1_000

/**
 * The targets there are, asked for once for all workloads that want to know at the same moment. A listing that hangs
 * or fails is replaced by the last one that came back: opening a target that has gone fails fast, and the next is tried.
 */
export class TargetDirectory {
  readonly #host: MigratorHost
  #known: readonly ComputeTarget[] = []
  #listedAt = -Infinity
  /** Counts the changes we heard of; a listing that began before the last one does not make the list fresh. */
  #version = 0
  #listing: Promise<void> | undefined

  constructor(host: MigratorHost) {
    this.#host = host
  }

  /** Something changed: the next `list()` asks again. */
  invalidate(): void {
    this.#version += 1
    this.#listedAt = -Infinity
  }

  /** As last listed. */
  get known(): readonly ComputeTarget[] {
    return this.#known
  }

  async list(): Promise<readonly ComputeTarget[]> {
    for (let round = 0; round < 2 && this.#isStale(); round += 1) await (this.#listing ??= this.#refresh())
    return this.#known
  }

  #isStale(): boolean {
    return this.#host.clock.now() - this.#listedAt >= maxAgeMs
  }

  async #refresh(): Promise<void> {
    const { clock } = this.#host
    const version = this.#version
    const ask = (signal: AbortSignal): Promise<readonly ComputeTarget[]> => this.#host.targets({ signal })
    try {
      this.#known = await withDeadline(ask, { clock, ms: patienceMs, what: 'the list of targets' })
      if (version === this.#version) this.#listedAt = clock.now()
    } catch {
      this.#listedAt = clock.now()
    } finally {
      this.#listing = undefined
    }
  }
}
