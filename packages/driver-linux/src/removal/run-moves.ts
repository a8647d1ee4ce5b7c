import type { DeviceHolder, PlanOutcome, RunPlanOptions } from '@egpu/core'
import type { Execute } from './execute.ts'
import type { Move } from './moves.ts'

/** A step that takes longer hangs in a driver; what it does after that is not known. */
const stepDeadlineMs = 60_000

export interface RunMovesOptions extends RunPlanOptions {
  readonly execute: Execute
  /** Looks whether the whole of it had its effect; the text says what did not. */
  readonly verify?: (() => Promise<string | undefined> | string | undefined) | undefined
  /** Who holds the device, for the report of a failure. */
  readonly holders?: (() => readonly DeviceHolder[]) | undefined
}

/**
 * Runs moves in order. When one fails, or `signal` aborts, those that were done are taken back, the last first, as far
 * as they can be. Rejects only with the abort reason.
 */
export async function runMoves(moves: readonly Move[], options: RunMovesOptions): Promise<PlanOutcome> {
  const { execute, onStep, signal, verify } = options
  const done: Move[] = []
  let failed: { readonly step: string | undefined; readonly reason: string } | undefined
  for (const move of moves) {
    if (signal?.aborted === true) break
    onStep?.(move.step, 'started')
    try {
      await execute(move.action, { signal: withDeadline(signal) })
      done.push(move)
      onStep?.(move.step, 'done')
    } catch (error) {
      // It may have happened all the same, so it is taken back with the others.
      done.push(move)
      onStep?.(move.step, 'failed')
      failed = { step: move.step.id, reason: error instanceof Error ? error.message : String(error) }
      break
    }
  }
  if (failed === undefined && signal?.aborted !== true) {
    const missing = await verify?.()
    if (missing === undefined) return { done: true }
    failed = { step: done.at(-1)?.step.id, reason: missing }
  }
  const undone: string[] = []
  for (const { step, undo } of done.reverse()) {
    if (undo === undefined) continue
    try {
      await execute(undo, { signal: AbortSignal.timeout(stepDeadlineMs) })
      undone.push(step.id)
      onStep?.(step, 'undone')
    } catch {
      // What cannot be taken back is missing from `undone`.
    }
  }
  signal?.throwIfAborted()
  const { step, reason } = failed ?? { step: undefined, reason: 'stopped' }
  return { done: false, failedStep: step, reason, undone, holders: options.holders?.() ?? [] }
}

function withDeadline(signal: AbortSignal | undefined): AbortSignal {
  const deadline = AbortSignal.timeout(stepDeadlineMs)
  // Node 20 collects a timeout that only `AbortSignal.any` knows of before it fires (nodejs/node issue 57736).
  deadline.addEventListener('abort', () => undefined, { once: true })
  return signal === undefined ? deadline : AbortSignal.any([signal, deadline])
}
