import type { ComputeTarget } from '@egpu/core'

/** Losses further back than this say nothing about now. */
const memoryMs = 3_600_000

/** However often a device was lost, it is not kept waiting for more than 2^6 dwell times. */
const mostDoublings = 6

interface Standing {
  losses: number[]
  /** When it was last seen to be back; `undefined` while it is away. */
  backSince: number | undefined
}

/** What a target's past is kept under: its device where one is known, so that all its runtimes share it. */
export function standingKey(target: ComputeTarget): string {
  return target.deviceId ?? target.id
}

/**
 * Remembers who was lost or left and since when they are back, so that work returns only to a device that has stayed
 * for a while, and later each time it fails again.
 */
export class Stability {
  readonly #dwellMs: number
  readonly #standings = new Map<string, Standing>()
  readonly #since: number

  constructor(dwellMs: number, nowMs: number) {
    this.#dwellMs = dwellMs
    this.#since = nowMs
  }

  /** Losses that are still remembered, and how long we would have seen any. */
  history(key: string, nowMs: number): { readonly losses: number; readonly observedMs: number } {
    const losses = (this.#standings.get(key)?.losses ?? []).filter((past) => nowMs - past < memoryMs).length
    return { losses, observedMs: Math.min(memoryMs, nowMs - this.#since) }
  }

  /** It failed. Whether that is news: while it is away, everyone who says so means the same loss. */
  lost(key: string, atMs: number): boolean {
    const standing = this.#standings.get(key)
    if (standing !== undefined && standing.backSince === undefined) return false
    const losses = [...(standing?.losses ?? []).filter((past) => atMs - past < memoryMs), atMs]
    this.#standings.set(key, { losses, backSince: undefined })
    return true
  }

  /** It failed at these times in the life of an earlier process; since when it is back nobody knows, so since then. */
  recall(key: string, lostAtMs: readonly number[], nowMs: number): void {
    const losses = lostAtMs.filter((atMs) => nowMs - atMs < memoryMs)
    const last = losses.at(-1)
    if (last !== undefined && !this.#standings.has(key)) this.#standings.set(key, { losses, backSince: last })
  }

  /** It goes in peace, or is to be left alone for a while. */
  left(key: string): void {
    this.#standings.set(key, { losses: this.#standings.get(key)?.losses ?? [], backSince: undefined })
  }

  /** It is there. Only the first call after a departure counts. */
  back(key: string, atMs: number): void {
    const standing = this.#standings.get(key)
    if (standing !== undefined) standing.backSince ??= atMs
  }

  /** From when on work may return to it: -Infinity if it never went, Infinity while it is away. */
  trustedAt(key: string): number {
    const standing = this.#standings.get(key)
    if (standing === undefined) return -Infinity
    if (standing.backSince === undefined) return Infinity
    const doublings = Math.min(Math.max(standing.losses.length - 1, 0), mostDoublings)
    return standing.backSince + this.#dwellMs * 2 ** doublings
  }
}
