import { systemClock } from '@egpu/core'
import { expect, it, vi } from 'vitest'
import { twoHosts } from './hosts.ts'

it('a host to whom work was moved waits for nothing any more once it is closed', { timeout: 180_000 }, async () => {
  let pending = 0
  const { sleep } = systemClock
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
