import type { FrozenState } from '@egpu/core'
import { dispose } from '../dispose.ts'
import type { Shipment } from './shipment.ts'

/** More rounds than this gain nothing: each moves at least a fifth less than the one before. */
const mostRounds = 12

/** A round that has not shrunk to this share of the one before shows that the work changes its state faster than it goes. */
const converges = 0.8

export interface PrecopyOptions {
  readonly shipment: Shipment
  /** A consistent copy, while the work goes on. */
  readonly freeze: () => Promise<FrozenState>
  readonly signal: AbortSignal
  /** For how long the work may stand still in the end. */
  readonly downtimeMs: number
}

export interface Precopied {
  readonly rounds: number
  /** What is left fits the downtime. */
  readonly fits: boolean
}

/**
 * Sends the state while the work goes on, then what changed meanwhile, and so on (Clark et al., NSDI 2005): with a dirty
 * rate of r times the bandwidth round i sends rⁱ of it. Ends when what is left fits the downtime at the rate seen, or
 * when it stops shrinking. What is left is due in the shipment.
 */
export async function precopy({ shipment, freeze, signal, downtimeMs }: PrecopyOptions): Promise<Precopied> {
  let before = Infinity
  for (let rounds = 0; ; rounds += 1) {
    const frozen = await freeze()
    try {
      shipment.due.add(rounds === 0 ? undefined : frozen.changed)
      const { bytes } = shipment.due
      const rate = shipment.bytesPerMs ?? Infinity
      const fits = bytes / rate <= downtimeMs
      if (rounds > 0 && (fits || rounds >= mostRounds || bytes > converges * before)) return { rounds, fits }
      before = bytes
      await shipment.send(frozen, signal)
    } finally {
      dispose(frozen)
    }
  }
}

/** What Clark's model says: bytes over the wire and the time the work stands still, for `rounds` of copying ahead. */
export function precopyModel(
  stateBytes: number,
  bytesPerMs: number,
  dirtyBytesPerMs: number,
  rounds: number,
): { readonly totalBytes: number; readonly downtimeMs: number } {
  const r = dirtyBytesPerMs / bytesPerMs
  let totalBytes = 0
  for (let i = 0; i <= rounds; i += 1) totalBytes += stateBytes * r ** i
  return { totalBytes, downtimeMs: (stateBytes * r ** rounds) / bytesPerMs }
}
