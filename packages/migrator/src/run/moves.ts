import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { ComputeTarget, MigrationInfo } from '@egpu/core'
import { deferred, quiet } from './deferred.ts'
import type { Deferred } from './deferred.ts'

/** Somebody wants the work elsewhere. */
export interface MoveRequest {
  readonly reason: MigrationInfo['reason']
  /** Where to. */
  readonly targetId?: string | undefined
  /** Or only: away from here. */
  readonly offDeviceId?: string | undefined
  /** Being nowhere is better than staying. */
  readonly mayPark: boolean
}

export interface Move extends MoveRequest {
  readonly done: Deferred<void>
}

/** The moves that were asked for and have neither come true nor been refused. */
export class Moves {
  readonly #moves = new Set<Move>()
  readonly #onAdd: () => void
  #isOver = false

  constructor(onAdd: () => void) {
    this.#onAdd = onAdd
  }

  /** The one that was asked for first. */
  get next(): Move | undefined {
    const [first] = this.#moves
    return first
  }

  add(request: MoveRequest): Move {
    const move: Move = { ...request, done: deferred<void>() }
    quiet(move.done.promise)
    this.#moves.add(move)
    this.#onAdd()
    // Nothing will ever be moved again.
    if (this.#isOver) this.end()
    return move
  }

  /** Resolves once it has come true. Whoever stops waiting for a move no longer wants it. */
  async outcome(move: Move, signal: AbortSignal | undefined): Promise<void> {
    const cancel = (): void => this.refuse(move, signal?.reason)
    if (signal?.aborted === true) cancel()
    signal?.addEventListener('abort', cancel, { once: true })
    try {
      await move.done.promise
    } finally {
      signal?.removeEventListener('abort', cancel)
    }
  }

  isLeaving(deviceId: string): boolean {
    return [...this.#moves].some(({ offDeviceId }) => offDeviceId === deviceId)
  }

  refuse(move: Move, error: unknown): void {
    if (this.#moves.delete(move)) move.done.reject(error)
  }

  /** The work is here now (or nowhere): some moves have come true with that, whoever made it so. */
  settle(here: ComputeTarget | undefined): void {
    for (const move of this.#moves) {
      const { targetId, offDeviceId } = move
      const isOff = offDeviceId !== undefined && here?.deviceId !== offDeviceId
      const isThere = targetId !== undefined && here?.id === targetId
      if ((isOff || isThere) && this.#moves.delete(move)) move.done.resolve()
    }
  }

  /** The work is over: it is off every device and will not come to any. */
  end(): void {
    this.#isOver = true
    this.settle(undefined)
    for (const move of this.#moves) this.refuse(move, new EGpuError(EGpuErrorCode.Closed, 'the run is over'))
  }
}
