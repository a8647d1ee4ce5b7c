import { availableParallelism } from 'node:os'
import type { SeedOptions } from '../../../packages/migrator/test/helpers/seeds.ts'
import { KillPlan } from './kill-plan.ts'
import { surviveWork } from './survive-work.ts'
import { takeLives } from './work.ts'
import type { Work } from './work.ts'

export interface ProcessOutcome {
  /** Processes that were ended by SIGKILL. */
  readonly kills: number
  /** How many of them at which kind of moment. */
  readonly byKind: Readonly<Record<string, number>>
  readonly works: number
  /** Works that ended with the result of an undisturbed one. */
  readonly identical: number
  /** Two processes at work on the same, or one at work twice. */
  readonly doubleOwners: number
  /** Works that did not go on from what had been promised to last, or of which nobody knew any more. */
  readonly lost: number
  /** States that were handed over and were not what had been saved. */
  readonly tornLoads: number
  /** Named points that a process was killed at, of all there are. */
  readonly points: { readonly killedAt: number; readonly of: number; readonly missed: readonly string[] }
  readonly failures: readonly { readonly seed: number; readonly message: string }[]
}

/** As often one work's process is killed before it may finish. */
const killsPerWork = 5

/** One in so many works runs in a child of `survive`, whose parent has the checkpoints. */
const surviveEvery = 10

/**
 * Real processes killed by SIGKILL, at random moments from their first instruction to their last and at every named point
 * of the store, the journal and the work, until so many are and no point is left. A few works at a time.
 */
export async function processes({ first = 1, seeds, onProgress }: SeedOptions): Promise<ProcessOutcome> {
  const plan = await KillPlan.make()
  const works: Work[] = []
  let begun = 0
  let seed = first
  const lane = async (): Promise<void> => {
    while (begun < seeds || plan.left > 0) {
      const mine = seed
      seed += 1
      begun += killsPerWork
      const isSurvived = mine % surviveEvery === 0
      const work = isSurvived ? surviveWork(mine, killsPerWork) : takeLives(mine, killsPerWork, plan)
      works.push(await work)
      begun += (works.at(-1)?.kills.length ?? 0) - killsPerWork
      onProgress?.(Math.min(seeds, count(works)))
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() + 1 }, lane))
  const byKind: Record<string, number> = {}
  for (const kind of works.flatMap(({ kills }) => kills)) byKind[kind] = (byKind[kind] ?? 0) + 1
  const sum = (of: (work: Work) => number): number => works.reduce((total, work) => total + of(work), 0)
  return {
    kills: count(works),
    byKind,
    works: works.length,
    identical: sum(({ isIdentical }) => Number(isIdentical)),
    doubleOwners: sum(({ doubleOwners }) => doubleOwners),
    lost: sum(({ lost }) => lost),
    tornLoads: sum(({ tornLoads }) => tornLoads),
    points: plan.summary,
    failures: works.flatMap(({ seed: of, problems }) => problems.map((message) => ({ seed: of, message }))),
  }
}

function count(works: readonly Work[]): number {
  return works.reduce((sum, { kills }) => sum + kills.length, 0)
}
