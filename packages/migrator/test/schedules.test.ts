import { expect, it } from 'vitest'
import { schedules } from './helpers/schedules.ts'

it('several workloads that share devices and a store end as if nothing had happened, whatever the schedule', async () => {
  const outcome = await schedules({ seeds: 25 })
  expect(outcome.failures).toEqual([])
  expect(outcome.works).toBeGreaterThan(50)
  expect(outcome.crashes).toBeGreaterThan(5)
}, 300_000)
