import { spine } from '../../test/chaos/spine.ts'
import type { Figure } from '../figure.ts'

/** The demo's scenario over 1,000 seeds in virtual time: how many end with the bits of an undisturbed run. */
export async function measure(): Promise<readonly Figure[]> {
  const { seeds, identical, maxLostSteps } = await spine({ first: 1, seeds: 1_000 })
  return [
    {
      figure: 'seeds with an identical result',
      value: identical,
      unit: 'runs',
      against: `${seeds} runs`,
      ratio: identical / seeds,
      bar: '100 %',
      pass: identical === seeds,
    },
    { figure: 'most steps computed again', value: maxLostSteps, unit: 'steps' },
  ]
}
