import { EGpuErrorCode } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { embeddedCoordinator } from '../../src/ownership/embedded-coordinator.ts'
import { pair } from '../helpers/planes.ts'

describe('a peer that lies about who owns what', () => {
  it.each([
    ['nonsense', () => ({ resource: 'job', owner: '\u001b[2J', token: 'all of them' })],
    ['a token that cannot be yet', () => ({ resource: 'job', owner: 'z', token: 2 ** 53 - 1 })],
    ['no number at all', () => ({ resource: 'job', owner: 'z', token: Number.NaN })],
    [
      'nothing but an error',
      () => {
        throw new TypeError('no')
      },
    ],
  ])('and answers with %s keeps nobody from working', async (_what, answer) => {
    await using sides = await pair()
    const { a, b } = sides
    b.plane.handle('ownership/ask', answer)
    b.plane.handle('ownership/announce', answer)
    await a.plane.dial({ host: '127.0.0.1', port: b.port })
    await using coordinator = await embeddedCoordinator({ peers: a.plane })
    const tenure = await coordinator.acquire('job')
    expect(tenure).toMatchObject({ owner: a.plane.nodeId, token: 1 })
    await coordinator.renew(tenure)
  })

  it('is refused with the reason when it says so by itself, and what is owned stays so', async () => {
    await using sides = await pair()
    const { a, b } = sides
    await using coordinator = await embeddedCoordinator({ peers: a.plane })
    await b.plane.dial({ host: '127.0.0.1', port: a.port })
    const tenure = await coordinator.acquire('job')
    const { nodeId } = b.plane
    const lies = [
      { resource: 'job', owner: nodeId, token: 2 ** 53 - 1 },
      { resource: 'job', owner: nodeId, token: 2 ** 53 },
      { resource: 'job', owner: nodeId, token: -1 },
      { resource: 'job', owner: `${nodeId}\n`, token: 2 },
      { resource: 'x'.repeat(100_000), owner: nodeId, token: 2 },
      // Given up, which only the owner can say.
      { resource: 'job', token: 1 },
      ['job'],
      null,
    ]
    for (const lie of lies)
      await expect(b.plane.request(a.plane.nodeId, 'ownership/announce', lie)).rejects.toMatchObject({
        code: EGpuErrorCode.MalformedData,
      })
    await coordinator.renew(tenure)
  })
})
