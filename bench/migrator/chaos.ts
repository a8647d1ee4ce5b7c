import { flipEveryBit } from '../../packages/migrator/test/helpers/bit-flips.ts'
import { chaos } from '../../packages/migrator/test/helpers/chaos.ts'
import type { Figure } from '../figure.ts'

/** Enough to break each kind of thing at a hundred points; `pnpm chaos` goes through all of them. */
const seeds = 900

/** One thing broken at one point of a run, each run in virtual time. */
export async function measure(): Promise<Figure[]> {
  const { flips, unnoticed } = await flipEveryBit()
  const { kills, identical, doubleOwners, lostCheckpoints, pointsPerRun } = await chaos({ seeds })
  return [
    {
      figure: 'runs with the same result after a kill',
      value: identical,
      unit: 'runs',
      against: `${kills} runs, each broken at one of ${pointsPerRun} points`,
      ratio: identical / kills,
      bar: '100 %',
      pass: identical === kills,
    },
    { figure: 'double owners', value: doubleOwners, unit: 'runs', bar: '0', pass: doubleOwners === 0 },
    {
      figure: 'committed checkpoints lost',
      value: lostCheckpoints,
      unit: 'runs',
      bar: '0',
      pass: lostCheckpoints === 0,
    },
    {
      figure: 'flipped bits noticed',
      value: flips - unnoticed.length,
      unit: 'bits',
      against: `every one of ${flips} bits of a stored checkpoint, one at a time`,
      ratio: 1 - unnoticed.length / flips,
      bar: '100 %',
      pass: unnoticed.length === 0,
    },
  ]
}
