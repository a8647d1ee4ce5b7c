import { describe, expect, it } from 'vitest'
import { choosePeer } from '../src/choose-peer.ts'
import type { MeshLink, MeshPeer, PeerPurpose } from '../src/peer.ts'

const link = (id: string, changes: Partial<MeshLink> = {}): MeshLink => ({
  id,
  kind: 'thunderbolt',
  interfaceName: 'thunderbolt0',
  address: `fe80::1%${id}`,
  localAddress: `fe80::2%${id}`,
  port: undefined,
  sticker: undefined,
  trained: undefined,
  measured: {},
  mtu: undefined,
  remoteMtu: undefined,
  ...changes,
})
const peer = (id: string, links: readonly MeshLink[], memoryBytes?: number): MeshPeer => ({
  id,
  hostname: id,
  links,
  targets:
    memoryBytes === undefined
      ? []
      : [{ id: 't', name: 't', kind: 'gpu', runtime: 'cuda', removable: true, memoryBytes }],
})
const at = (latencyUs: number): Partial<MeshLink> => ({ measured: { latencyUs } })
const choose = (peers: readonly MeshPeer[], purpose: PeerPurpose, before?: readonly MeshPeer[]): string | undefined =>
  choosePeer(peers, purpose, before === undefined ? undefined : choosePeer(before, purpose))?.peerId

describe('the best peer', () => {
  it('is nobody without peers', () => {
    expect(choosePeer([], 'latency')).toBeUndefined()
  })

  it('for latency is the nearest, whichever came first', () => {
    const peers = [peer('a', [link('1', at(400))]), peer('b', [link('2', at(350))])]
    expect(choose(peers, 'latency')).toBe('b')
    expect(choose(peers.toReversed(), 'latency')).toBe('b')
  })

  it('is reached by its best link, with the address that leaves by it', () => {
    const both = peer('a', [link('slow', at(700)), link('fast', at(300))])
    expect(choosePeer([both], 'latency')).toMatchObject({ linkId: 'fast', address: 'fe80::1%fast', latencyUs: 300 })
  })

  it('is never one on a network while there is a cable, however slow the cable', () => {
    const lan = peer('lan', [link('n', { kind: 'network', ...at(50) })])
    const cable = peer('cable', [link('c', at(5_000))])
    expect(choose([lan, cable], 'latency')).toBe('cable')
    expect(choose([lan, cable], 'bandwidth')).toBe('cable')
    expect(choose([lan], 'latency')).toBe('lan')
  })

  it('is not changed by noise, and always by 50 µs', () => {
    const before = [peer('a', [link('1', at(2_000))]), peer('b', [link('2', at(2_100))])]
    const with_ = (b: number): MeshPeer[] => [peer('a', [link('1', at(2_000))]), peer('b', [link('2', at(b))])]
    expect(choose(with_(1_980), 'latency', before)).toBe('a')
    expect(choose(with_(1_950), 'latency', before)).toBe('b')
    const near = [peer('a', [link('1', at(40))]), peer('b', [link('2', at(60))])]
    expect(choose([peer('a', [link('1', at(40))]), peer('b', [link('2', at(32))])], 'latency', near)).toBe('a')
    expect(choose([peer('a', [link('1', at(60))]), peer('b', [link('2', at(35))])], 'latency', near)).toBe('b')
  })

  it('for bandwidth goes by what was measured, then by what was trained, in the slower direction', () => {
    const trained = { receive: { lanes: 2, gbpsPerLane: 20 }, transmit: { lanes: 2, gbpsPerLane: 20 } }
    const claims = peer('claims', [link('1', { trained, measured: { receiveGbps: 9, transmitGbps: 2 } })])
    const does = peer('does', [link('2', { measured: { receiveGbps: 5, transmitGbps: 5 } })])
    expect(choose([claims, does], 'bandwidth')).toBe('does')
    expect(choose([peer('t', [link('3', { trained })]), does], 'bandwidth')).toBe('t')
  })

  it('for memory has the largest target, and by latency among equals', () => {
    const small = peer('small', [link('1', at(100))], 8e9)
    const large = peer('large', [link('2', at(900))], 24e9)
    const none = peer('none', [link('3', at(10))])
    expect(choose([small, none, large], 'memory')).toBe('large')
    expect(choose([peer('far', [link('4', at(900))], 8e9), small], 'memory')).toBe('small')
  })

  it('is another one at once when it is gone', () => {
    const before = [peer('a', [link('1', at(100))]), peer('b', [link('2', at(500))])]
    expect(choose([before[1] as MeshPeer], 'latency', before)).toBe('b')
  })
})
