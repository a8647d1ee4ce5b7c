import type { MigrationPolicy, Warning, WarningAnswer, WorkloadView } from '../strategy.ts'

/** Where nothing tells when: most failures that announce themselves do so this long before (median of the traces). */
export const usualLeadMs = 120_000

/** Until work goes on after a loss: noticing it, opening another target, restoring. */
const usualRtoMs = 2_000

/** How long work stays away after a false alarm at the least: the dwell before it returns, and the alarm itself. */
const awayMs = 60_000

/** What health levels amount to as a chance to fail soon. */
const levelProbability = { degraded: 0.3, critical: 0.6 }

/**
 * Weighs what each answer to a warning is expected to cost, in milliseconds of work, and takes the cheapest: to go on as
 * before, to save more often, to save now, to move away. Most warnings are answered by saving more often, which costs
 * next to nothing when they turn out to be false.
 */
export const preemptive: MigrationPolicy = {
  name: 'preemptive',
  onWarning(warning, workload) {
    if (warning.kind === 'leaving') return 'move'
    if (warning.kind === 'link-downgraded') return 'checkpoint'
    return cheapestAnswer(warning, workload)
  },
}

/** The answers with their costs, cheapest first. */
export function answerCosts(
  probability: number,
  leadMs: number,
  workload: WorkloadView,
): readonly { readonly answer: WarningAnswer; readonly costMs: number }[] {
  const { pauseMs = 0, saveMs = pauseMs, intervalMs, unsavedMs = intervalMs, moveMs = saveMs * 2 } = workload
  /** The loss if it comes, with a save every `everyMs` and the first `firstMs` from now. */
  const lossMs = (everyMs: number, unsavedNow: number, firstMs: number): number => {
    const isBeforeFirst = Math.min(1, firstMs / leadMs)
    const first = unsavedNow + Math.min(firstMs, leadMs) / 2
    return isBeforeFirst * first + (1 - isBeforeFirst) * (Math.min(everyMs, leadMs) / 2) + usualRtoMs
  }
  const dueMs = Math.max(0, intervalMs - unsavedMs)
  const shortMs = Math.min(intervalMs, shortInterval(probability, leadMs, workload))
  const moveFails = Math.min(1, moveMs / leadMs)
  const away = Math.max(0, workload.slowdownElsewhere - 1) * awayMs
  return [
    { answer: 'wait' as const, costMs: probability * lossMs(intervalMs, unsavedMs, dueMs) },
    { answer: 'checkpoint' as const, costMs: pauseMs + probability * lossMs(intervalMs, unsavedMs, saveMs) },
    {
      answer: 'shorten' as const,
      costMs: pauseMs * Math.max(1, leadMs / shortMs) + probability * lossMs(shortMs, unsavedMs, saveMs),
    },
    {
      answer: 'move' as const,
      costMs: 2 * moveMs + away + probability * moveFails * lossMs(intervalMs, unsavedMs, dueMs),
    },
  ].sort((a, b) => a.costMs - b.costMs)
}

/** Young's interval for a device that is expected to fail by then. */
export function shortInterval(probability: number, leadMs: number, { pauseMs = 1, saveMs = 1 }: WorkloadView): number {
  return Math.max(2 * saveMs, Math.sqrt((2 * pauseMs * leadMs) / Math.max(probability, 0.01)))
}

function cheapestAnswer(warning: Warning, workload: WorkloadView): WarningAnswer {
  const { kind, forecast } = warning
  const level = kind === 'critical' || kind === 'degraded' ? levelProbability[kind] : 0
  const probability = Math.max(level, forecast?.probability ?? 0)
  const [cheapest] = answerCosts(probability, Math.max(1, forecast?.leadMs ?? usualLeadMs), workload)
  return cheapest?.answer ?? 'wait'
}
