import type { ComputeTarget } from '@egpu/core'
import { rescuePlan } from '../checkpoint/rescue.ts'
import type { RescueCandidate } from '../checkpoint/rescue.ts'
import { usualLeadMs } from '../strategies/preemptive.ts'
import type { Warning, WarningAnswer } from '../strategy.ts'
import type { Turn } from './rescue-line.ts'
import type { SavingLink } from './saving-link.ts'
import type { SavingLinks } from './saving-links.ts'

/** A workload on a device that was warned of. */
export interface Warned {
  readonly where: ComputeTarget | undefined
  /** What its last state would cost to save, and is worth. */
  readonly candidate: RescueCandidate
  /** What its strategy makes of the warning. */
  answer(warning: Warning): WarningAnswer
  act(answer: WarningAnswer, warning: Warning): void
  saveSoon(): void
}

/**
 * Has everything on a device answer a warning. Where not all can be saved or moved before the loss that is expected,
 * what pays most comes first, and saves go one after another: halves of two checkpoints are worth nothing.
 */
export function respond(links: SavingLinks, concerned: readonly Warned[], warning: Warning): void {
  const answers = new Map(concerned.map((run) => [run, run.answer(warning)]))
  const target = concerned[0]?.where
  const link = target && links.of(target)
  const ordered = link === undefined ? concerned : prepared(link, answers, warning)
  for (const run of ordered) run.act(answers.get(run) ?? 'wait', warning)
}

/** Makes way on the link for what has to be saved; in which order to go about it. */
function prepared(
  link: SavingLink,
  answers: ReadonlyMap<Warned, WarningAnswer>,
  { kind, forecast }: Warning,
): readonly Warned[] {
  const concerned = [...answers.keys()]
  const withinMs = Math.max(1, forecast?.leadMs ?? usualLeadMs)
  const bytesPerSecond = link.pace.expectedBytesPerSecond ?? Infinity
  const msOf = ({ candidate: { bytes, freezeMs = 0 } }: Warned): number => freezeMs + (bytes / bytesPerSecond) * 1_000
  const ordered = inOrder(concerned, msOf, { withinMs, bytesPerSecond })
  const saving = ordered.filter((run) => isSaved(answers.get(run)))
  // A slower link alone takes nothing away.
  if (saving.length === 0 || kind === 'link-downgraded') return ordered
  const fits = saving.reduce((sum, run) => sum + msOf(run), 0) <= withinMs
  if (fits) link.press(withinMs)
  else
    link.lineUp(
      saving.map((run) => turnOf(run, msOf(run))),
      withinMs,
    )
  return ordered
}

function turnOf(run: Warned, ms: number): Turn {
  return { id: run.candidate.id, ms, start: () => run.saveSoon() }
}

/** Those that are worth it in the time there is, then the others: the loss may come later than expected. */
function inOrder(
  concerned: readonly Warned[],
  msOf: (run: Warned) => number,
  limits: { readonly withinMs: number; readonly bytesPerSecond: number },
): readonly Warned[] {
  const candidates = concerned.map(({ candidate }) => candidate)
  const places = new Map(rescuePlan(candidates, limits).map((id, place) => [id, place]))
  const worth = (run: Warned): number => run.candidate.gain / Math.max(msOf(run), 1)
  return [...concerned].sort((a, b) => {
    const [first = Infinity, second = Infinity] = [places.get(a.candidate.id), places.get(b.candidate.id)]
    return first === second ? worth(b) - worth(a) : first - second
  })
}

function isSaved(answer: WarningAnswer | undefined): boolean {
  return answer === 'checkpoint' || answer === 'shorten'
}
