import type { MeshEvent, MeshLink, MeshPeer } from '@egpu/mesh'
import { describe, expect, it } from 'vitest'
import { newsOfMesh } from '../src/dashboard/timeline.ts'

const link: MeshLink = {
  id: 'cable',
  kind: 'thunderbolt',
  interfaceName: 'thunderbolt0',
  address: 'fe80::2',
  localAddress: 'fe80::1',
  port: 'domain0/port1',
  sticker: 'thunderbolt-4',
  trained: { receive: { lanes: 2, gbpsPerLane: 20 }, transmit: { lanes: 2, gbpsPerLane: 20 } },
  measured: {},
  mtu: 65_535,
  remoteMtu: 65_535,
}
const peer: MeshPeer = { id: 'a'.repeat(64), hostname: 'tower\u001B[31m', links: [link], targets: [] }
const slower: MeshLink = {
  ...link,
  trained: { receive: { lanes: 1, gbpsPerLane: 20 }, transmit: { lanes: 2, gbpsPerLane: 20 } },
}
const changed = (before: MeshLink, after: MeshLink): MeshEvent => ({ type: 'link-changed', peer, before, after })

describe('what the timeline tells of the mesh', () => {
  it.each([
    [{ type: 'peer-connected', peer }, 'good', 'peer-connected: tower'],
    [{ type: 'peer-lost', peer }, 'bad', 'peer-lost: tower'],
    [{ type: 'link-up', peer, link }, 'good', 'link-up: tower over domain0/port1, thunderbolt-4'],
    [
      { type: 'link-down', peer, link, reason: 'link-down', message: 'the cable was pulled' },
      'bad',
      'link-down: tower over domain0/port1, thunderbolt-4: the cable was pulled',
    ],
    [
      changed(link, slower),
      'busy',
      'link-changed: tower over domain0/port1, thunderbolt-4: 40 Gb/s to 20 Gb/s in and 40 Gb/s out',
    ],
  ] as [MeshEvent, string, string][])('%j', (event, tone, text) => {
    expect(newsOfMesh(event)).toEqual({ type: event.type, tone, text })
  })

  it('is nothing when a link was only measured anew', () => {
    expect(newsOfMesh(changed(link, { ...link, measured: { latencyUs: 40 } }))).toBeUndefined()
  })

  it('is nothing that a stranger could fill it with', () => {
    const neighbour = { id: 'x', address: 'fe80::3', interfaceName: 'thunderbolt0', port: 1, pairing: false }
    expect(newsOfMesh({ type: 'neighbour-found', neighbour })).toBeUndefined()
  })
})
