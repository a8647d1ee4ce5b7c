import { VirtualClock } from '@egpu/driver-sim'
import { describe, expect, it } from 'vitest'
import { runScenario, sha256, undisturbedField, type ScenarioResult } from '../src/demo/scenario.ts'

function run(seed: number, steps = 200): Promise<ScenarioResult> {
  const clock = new VirtualClock()
  return clock.runUntil(
    runScenario({
      seed,
      size: 16,
      steps,
      clock,
      batch: 10,
      checkpointIntervalMs: 40,
      failBackAfterMs: 30,
      cpuStepMs: 2,
      gpuStepMs: 1,
    }),
  )
}

describe('the pulled cable', () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8])(
    'seed %i: the result is the undisturbed one, after a stay on the processor',
    async (seed) => {
      const result = await run(seed)
      expect(result.targets).toEqual(['external GPU', 'CPU', 'external GPU'])
      expect(result.lostSteps).toBeGreaterThan(0)
      expect(result.sha256).toBe(sha256(undisturbedField(16, seed, 200)))
    },
  )

  it('takes the same path twice with the same seed', async () => {
    const [first, second] = [await run(11), await run(11)]
    expect(second).toEqual(first)
  })

  it('would notice a single step that is missing or done twice', () => {
    const whole = sha256(undisturbedField(16, 1, 200))
    expect(sha256(undisturbedField(16, 1, 199))).not.toBe(whole)
    expect(sha256(undisturbedField(16, 1, 201))).not.toBe(whole)
  })
})
