import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import { within } from '../deadline.ts'
import type { Coordinator, Ownership } from '../ownership/coordinator.ts'
import type { TokenBook } from '../ownership/token-book.ts'

/** A coordinator may hear of a new owner a moment after the owner did. */
const hearsayMs = 2_000

/**
 * Which peers own what, by the coordinator's word. A peer's own word counts for nothing: one that names a high token would
 * shut the owner out for good, and its checkpoints would take the place of the owner's.
 */
export class KnownOwners {
  readonly #coordinator: Coordinator
  readonly #tokens: TokenBook
  readonly #known = new Map<string, Ownership>()

  constructor(coordinator: Coordinator, tokens: TokenBook) {
    this.#coordinator = coordinator
    this.#tokens = tokens
  }

  /**
   * Resolves once it is known that a peer owns a workload by this token; from then on lower ones are stale. Rejects with
   * `EGPU_STALE_EPOCH` when a higher token was seen, with `EGPU_NOT_OWNER` when the coordinator does not say so.
   */
  async assertOwner(peerId: string, workloadId: string, token: number, { signal }: AbortOptions): Promise<void> {
    this.#tokens.assertCurrent(workloadId, token)
    const known = this.#known.get(workloadId)
    if (known?.owner === peerId && known.token === token) return
    const ownership = await this.#ask(peerId, workloadId, token, signal)
    await this.#tokens.see(workloadId, token)
    this.#known.set(workloadId, ownership)
  }

  forget(workloadId: string): void {
    this.#known.delete(workloadId)
  }

  async #ask(peerId: string, resource: string, token: number, signal: AbortSignal | undefined): Promise<Ownership> {
    const stop = new AbortController()
    const patience = within(hearsayMs, signal === undefined ? stop.signal : AbortSignal.any([signal, stop.signal]))
    let now = `${this.#coordinator.name} does not say who does`
    try {
      for await (const state of this.#coordinator.watch(resource, { signal: patience })) {
        if (state.kind === 'free') now = 'nobody does'
        else if (state.ownership.owner === peerId && state.ownership.token === token) return state.ownership
        else now = `${state.ownership.owner} does by token ${state.ownership.token}`
      }
    } finally {
      stop.abort()
    }
    signal?.throwIfAborted()
    throw new EGpuError(EGpuErrorCode.NotOwner, `${peerId} does not own ${resource} by token ${token}: ${now}`)
  }
}
