import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import type { PeerConnection } from '../../src/control/peer-connection.ts'
import { temporaryIdentity } from '../../src/identity/identity.ts'
import { pair, side, until, type Side } from '../helpers/planes.ts'

const code = (wanted: string): unknown => expect.objectContaining({ code: wanted })
const dial = (from: Side, to: Side): Promise<PeerConnection> =>
  from.plane.dial({ host: '127.0.0.1', port: to.port, peerId: to.identity.nodeId })

describe('a connection between paired hosts', () => {
  it('carries requests both ways, each side knowing the other by its key', async () => {
    await using sides = await pair()
    const { a, b } = sides
    b.plane.handle('double', (body) => (body as number) * 2)
    a.plane.handle('who', (_body, { connection }) => connection.peerId)
    const connection = await dial(a, b)
    expect(connection.peerId).toBe(b.identity.nodeId)
    expect(await connection.request('double', 21)).toBe(42)
    await until(() => b.plane.connections().length === 1)
    expect(await b.plane.request(a.identity.nodeId, 'who', undefined)).toBe(b.identity.nodeId)
  })

  it('knows at both ends the same secret bytes per label', async () => {
    await using sides = await pair()
    const connection = await dial(sides.a, sides.b)
    await until(() => sides.b.plane.connections().length === 1)
    const other = sides.b.plane.connections()[0] as PeerConnection
    expect(connection.exportKey('bulk')).toEqual(other.exportKey('bulk'))
    expect(connection.exportKey('bulk')).not.toEqual(connection.exportKey('other'))
  })

  it('carries an error with its code, and an ordinary one as a refusal', async () => {
    await using sides = await pair()
    sides.b.plane.handle('coded', () => {
      throw new EGpuError(EGpuErrorCode.NoTarget, 'no GPU here')
    })
    sides.b.plane.handle('plain', () => {
      throw new Error('not today')
    })
    const connection = await dial(sides.a, sides.b)
    await expect(connection.request('coded', 1)).rejects.toEqual(code('EGPU_NO_TARGET'))
    await expect(connection.request('plain', 1)).rejects.toThrow('not today')
    await expect(connection.request('plain', 1)).rejects.toEqual(code('EGPU_PEER_REFUSED'))
    await expect(connection.request('unheard of', 1)).rejects.toThrow(
      /nothing here answers requests of type unheard of/,
    )
  })

  it('gives up a request with the reason of its signal and tells the other side', async () => {
    await using sides = await pair()
    const seen: unknown[] = []
    sides.b.plane.handle('slow', (_body, { signal }) => {
      signal.addEventListener('abort', () => seen.push('cancelled'))
      return new Promise(() => {})
    })
    const connection = await dial(sides.a, sides.b)
    const reason = new Error('enough')
    const stop = new AbortController()
    const asked = connection.request('slow', 1, { signal: stop.signal })
    setTimeout(() => stop.abort(reason), 20)
    await expect(asked).rejects.toBe(reason)
    await until(() => seen.length === 1)
  })

  it('rejects what is unanswered when the connection ends', async () => {
    await using sides = await pair()
    sides.b.plane.handle('never', () => new Promise(() => {}))
    const connection = await dial(sides.a, sides.b)
    const asked = connection.request('never', 1)
    await until(() => sides.b.plane.connections().length === 1)
    await Promise.all([expect(asked).rejects.toEqual(code('EGPU_PEER_LOST')), sides.b.plane.close()])
    expect((await connection.closed).reason).toBe('closed-by-peer')
    expect(sides.a.plane.connections()).toEqual([])
  })

  it('refuses a body above the limit at the sender and lives on', async () => {
    await using sides = await pair()
    sides.b.plane.handle('echo', (body) => body)
    const connection = await dial(sides.a, sides.b)
    await expect(connection.request('echo', 'x'.repeat(1024 * 1024))).rejects.toEqual(code('EGPU_MALFORMED_DATA'))
    expect(await connection.request('echo', 'still here')).toBe('still here')
  })

  it('becomes one when both sides dial at once, whoever wins', async () => {
    for (let round = 0; round < 10; round += 1) {
      await using sides = await pair()
      const { a, b } = sides
      b.plane.handle('echo', (body) => body)
      a.plane.handle('echo', (body) => body)
      const [byA, byB] = await Promise.all([dial(a, b), dial(b, a)])
      expect(await byA.request('echo', round)).toBe(round)
      expect(await byB.request('echo', round)).toBe(round)
      await until(() => a.plane.connections().length === 1 && b.plane.connections().length === 1)
      const [ofA, ofB] = [a.plane.connections()[0], b.plane.connections()[0]] as [PeerConnection, PeerConnection]
      await until(() => ofA.exportKey('same').equals((b.plane.connections()[0] as PeerConnection).exportKey('same')))
      expect(ofB.peerId).toBe(a.identity.nodeId)
    }
  })

  it('replaces the old connection when the same side dials again', async () => {
    await using sides = await pair()
    const first = await dial(sides.a, sides.b)
    const second = await dial(sides.a, sides.b)
    expect(second).not.toBe(first)
    expect((await first.closed).reason).toBe('replaced')
    expect(sides.a.plane.connections()).toEqual([second])
  })
})

describe('a stranger', () => {
  it('is served nothing and told why', async () => {
    await using known = await side(() => false, { name: 'known' })
    await using stranger = await side(() => true)
    let served = false
    known.plane.handle('secret', () => (served = true))
    await expect(dial(stranger, known)).rejects.toThrow(/refused: .* is not paired with this host; run egpu mesh pair/)
    await until(() => known.refusals.length === 1)
    expect(known.refusals[0]).toMatchObject({
      peerId: stranger.identity.nodeId,
      error: { code: 'EGPU_PEER_NOT_TRUSTED' },
    })
    expect(served).toBe(false)
    expect(known.plane.connections()).toEqual([])
  })

  it('that uses the address of a peer is refused before anything is said', async () => {
    await using sides = await pair()
    await using impostor = await side(() => true)
    const expected = sides.b.identity.nodeId
    await expect(sides.a.plane.dial({ host: '127.0.0.1', port: impostor.port, peerId: expected })).rejects.toThrow(
      /another host uses its name or address/,
    )
    expect(sides.a.plane.connections().map(({ peerId }) => peerId)).not.toContain(impostor.identity.nodeId)
    expect(impostor.plane.connections()).toEqual([])
  })

  it('with a certificate that has ended is refused, and so is one from the future', async () => {
    const { identityOf, newPrivateKey } = await import('../../src/identity/identity.ts')
    const key = newPrivateKey()
    const day = 24 * 60 * 60 * 1_000
    for (const [now, words] of [
      [Date.now() - 500 * day, /ended/],
      [Date.now() + 30 * day, /in the future/],
    ] as const) {
      const old = identityOf(key, now)
      await using known = await side((peer) => peer === old.nodeId)
      await using late = await side(() => true, { identity: old })
      await expect(dial(late, known)).rejects.toThrow(words)
      expect(known.plane.connections()).toEqual([])
    }
  })
})

describe('one key on two machines', () => {
  it('is noticed when the second connects to a peer, which keeps the first', async () => {
    const [copied, other] = [temporaryIdentity(), temporaryIdentity()]
    const trusts = (peer: string): boolean => peer === copied.nodeId || peer === other.nodeId
    await using host = await side(trusts, { identity: other })
    await using first = await side(trusts, { identity: copied, name: 'first' })
    await using second = await side(trusts, { identity: copied, name: 'second' })
    const connection = await dial(first, host)
    await expect(dial(second, host)).rejects.toEqual(code('EGPU_IDENTITY_COPIED'))
    await until(() => host.refusals.length === 1)
    expect(host.refusals[0]?.error.message).toMatch(/two machines, first and second, use the key/)
    expect(await connection.request('mesh.alive', undefined)).toBe(true)
  })

  it('is noticed by the two themselves', async () => {
    const copied = temporaryIdentity()
    await using first = await side(() => true, { identity: copied, name: 'first' })
    await using second = await side(() => true, { identity: copied, name: 'second' })
    await expect(dial(first, second)).rejects.toEqual(code('EGPU_IDENTITY_COPIED'))
    expect(second.refusals[0]?.error.message).toMatch(/another machine, first, uses the key of this host/)
    expect(first.refusals[0]?.error.code).toBe('EGPU_IDENTITY_COPIED')
  })

  it('is not what a restarted process looks like', async () => {
    const [restarting, other] = [temporaryIdentity(), temporaryIdentity()]
    const trusts = (peer: string): boolean => peer === restarting.nodeId || peer === other.nodeId
    await using host = await side(trusts, { identity: other })
    {
      await using before = await side(trusts, { identity: restarting, hostTag: '0123456789abcdef' })
      await dial(before, host)
    }
    await using after = await side(trusts, { identity: restarting, hostTag: '0123456789abcdef' })
    const connection = await dial(after, host)
    expect(await connection.request('mesh.alive', undefined)).toBe(true)
    expect(host.refusals).toEqual([])
  })
})
