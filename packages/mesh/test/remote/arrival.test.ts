import { systemClock } from '@egpu/core'
import { expect, it, vi } from 'vitest'
import { twoHosts } from './hosts.ts'

it('a host to whom work was moved waits for nothing any more once it is closed', { timeout: 180_000 }, async () => {
  let pending = 0
  const sleep = systemClock.sleep.bind(systemClock)
  vi.spyOn(systemClock, 'sleep').mockImplementation((...args) => {
    pending += 1
    return sleep(...args).finally(() => (pending -= 1))
  })
  {
    // Neither gets to the end of it.
    const tally = { steps: 1e9 }
    await using hosts = await twoHosts({ tally }, { tally })
    const run = await hosts.a.remote.run('tally', 'job')
    await run.moveToPeer(hosts.b.peers.nodeId)
  }
  await expect.poll(() => pending, { timeout: 15_000 }).toBe(0)
})

it(
  'a host stands by from the moment it was asked, although no checkpoint was due yet',
  { timeout: 180_000 },
  async () => {
    const tally = { steps: 1e9 }
    await using hosts = await twoHosts({ tally, checkpointIntervalMs: 1e9 }, { tally })
    const run = await hosts.a.remote.run('tally', 'job')
    await run.standBy(hosts.b.peers.nodeId)
    expect(run.replicated?.generation).toBeGreaterThan(0)
    expect(await hosts.b.store.list('job')).toHaveLength(1)
  },
)
