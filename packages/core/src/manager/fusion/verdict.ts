import type { Evidence, Verdict } from '../../types/verdict.ts'
import { unknownVerdict } from '../../types/verdict.ts'

/**
 * One verdict from several drivers.
 *
 * - Agreeing drivers: the surest counts. They read the same machine, so their evidence does not add up.
 * - Disagreeing drivers: the surer side wins by what it is surer than the other; equally sure means unknown.
 * - A driver that cannot tell takes no side; all evidence is kept, each piece once.
 */
export function fuseVerdicts(verdicts: readonly Verdict[]): Verdict {
  if (verdicts.length === 0) return unknownVerdict
  if (verdicts.length === 1) return verdicts[0] as Verdict
  const evidence = unique(verdicts.flatMap((verdict) => verdict.evidence))
  const external = surest(verdicts, 'external')
  const internal = surest(verdicts, 'internal')
  const difference = (external?.confidence ?? 0) - (internal?.confidence ?? 0)
  if (difference === 0) return { conclusion: 'unknown', confidence: 0, evidence }
  const winner = (difference > 0 ? external : internal) as Verdict
  const { conclusion, transport } = winner
  return { conclusion, confidence: round(Math.abs(difference)), ...(transport && { transport }), evidence }
}

function surest(verdicts: readonly Verdict[], conclusion: Verdict['conclusion']): Verdict | undefined {
  let best: Verdict | undefined
  for (const verdict of verdicts) {
    if (verdict.conclusion === conclusion && verdict.confidence > (best?.confidence ?? -1)) best = verdict
  }
  return best
}

/** Drivers that look at the same file report the same piece; it is one piece. */
function unique(evidence: readonly Evidence[]): readonly Evidence[] {
  const seen = new Set<string>()
  return evidence.filter(({ signal, value, source }) => {
    const key = JSON.stringify([signal, value, source])
    if (seen.has(key)) return false
    seen.add(key)
    return true
  })
}

/** Takes the noise off a difference of two confidences. */
const round = (value: number): number => Math.round(value * 1e6) / 1e6

/** A person's word: certain, and kept next to what the drivers thought. */
export function overriddenVerdict(
  verdict: Verdict,
  override: Pick<Verdict, 'transport'> & { readonly conclusion: 'external' | 'internal' },
): Verdict {
  const { conclusion } = override
  const transport = override.transport ?? (verdict.conclusion === conclusion ? verdict.transport : undefined)
  const word: Evidence = {
    signal: 'user-override',
    value: conclusion,
    weight: 1,
    points: conclusion,
    source: 'options.overrides',
  }
  return {
    conclusion,
    confidence: 1,
    ...(conclusion === 'external' && { transport: transport ?? 'unknown' }),
    evidence: [word, ...verdict.evidence],
  }
}
