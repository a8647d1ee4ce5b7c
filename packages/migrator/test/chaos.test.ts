import { expect, it } from 'vitest'
import { chaos } from './helpers/chaos.ts'

it('whatever is broken at whatever point, the result is the same and nothing that was saved is lost', async () => {
  const outcome = await chaos({ seeds: 90 })
  expect(outcome).toMatchObject({ kills: 90, identical: 90, doubleOwners: 0, lostCheckpoints: 0, failures: [] })
  expect(outcome.pointsPerRun).toBeGreaterThan(400)
}, 300_000)
