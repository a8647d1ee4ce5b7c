import { expect, it } from 'vitest'
import { leaseSeconds, simulate } from './simulation.ts'

it('sixty hosts find each other, agree on who runs what, and take over what a tenth of them ran', async () => {
  const result = await simulate(60)
  expect(result).toMatchObject({ hosts: 60, works: 6, disagreements: 0, doubleOwners: 0 })
  expect(result.membersAfterMs).toBeLessThanOrEqual(500)
  expect(result.takenOverAfterMs).toBeGreaterThan(0)
  expect(result.takenOverAfterMs).toBeLessThanOrEqual(leaseSeconds * 1_000 + 2_000)
  expect(result.lossKnownAfterMs).toBeLessThanOrEqual(leaseSeconds * 1_000 + 2_000)
  // A host hears once of each that starts, and costs the cluster the same however many there are.
  expect(result.startNotices).toBeLessThanOrEqual(60)
  expect(result.idleRequests).toBeLessThanOrEqual(4)
})
