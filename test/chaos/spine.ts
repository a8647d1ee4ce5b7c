import { VirtualClock } from '@egpu/driver-sim'
import { runScenario, sha256, undisturbedField } from '../../packages/cli/src/demo/scenario.ts'
import type { SeedOptions } from '../../packages/migrator/test/helpers/seeds.ts'

export interface ChaosOutcome {
  readonly seeds: number
  readonly identical: number
  readonly failures: readonly { readonly seed: number; readonly message: string }[]
  /** Over all runs. */
  readonly maxLostSteps: number
  readonly maxRtoMs: number
  readonly seconds: number
}

/** A small field: what is tested is every order of events, not the arithmetic. */
const field = { size: 32, steps: 300, batch: 10 } as const

/** The demo's scenario in virtual time, once per seed. */
export async function spine({ first = 1, seeds, onProgress }: SeedOptions): Promise<ChaosOutcome> {
  const begun = performance.now()
  const failures: { seed: number; message: string }[] = []
  let maxLostSteps = 0
  let maxRtoMs = 0
  for (let seed = first; seed < first + seeds; seed += 1) {
    const clock = new VirtualClock()
    try {
      const result = await clock.runUntil(
        runScenario({
          ...field,
          seed,
          clock,
          checkpointIntervalMs: 40,
          failBackAfterMs: 30,
          cpuStepMs: 2,
          gpuStepMs: 1,
        }),
      )
      const expected = sha256(undisturbedField(field.size, seed, field.steps))
      if (result.sha256 !== expected) failures.push({ seed, message: `${result.sha256} instead of ${expected}` })
      if (result.targets.length < 3) failures.push({ seed, message: `never returned: ${result.targets.join(' → ')}` })
      maxLostSteps = Math.max(maxLostSteps, result.lostSteps)
      maxRtoMs = Math.max(maxRtoMs, result.rtoMs)
    } catch (error) {
      failures.push({ seed, message: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    }
    onProgress?.(seed - first + 1)
  }
  const failed = new Set(failures.map(({ seed }) => seed)).size
  return {
    seeds,
    identical: seeds - failed,
    failures,
    maxLostSteps,
    maxRtoMs,
    seconds: (performance.now() - begun) / 1_000,
  }
}
