import { describe, expect, it } from 'vitest'
import type { Sighting } from '../src/discovery/discovery.ts'
import { Neighbours } from '../src/neighbours.ts'

const me = { nodeId: 'me', instance: 'run', hostTag: 'machine' }

function rig(): { readonly neighbours: Neighbours; readonly wanted: string[]; readonly found: string[] } {
  const [wanted, found]: [string[], string[]] = [[], []]
  const neighbours = new Neighbours({
    ...me,
    isPaired: (id) => id.startsWith('friend'),
    want: (_key, { peerId, interfaceName }) => wanted.push(`${peerId} ${interfaceName}`),
    onNew: ({ id }) => found.push(id),
  })
  return { neighbours, wanted, found }
}

const sighting = (nodeId: string, changes: Partial<Sighting> = {}): Sighting => ({
  nodeId,
  instance: `run of ${nodeId}`,
  hostTag: `machine of ${nodeId}`,
  port: 47_413,
  pairing: false,
  address: 'fe80::1%thunderbolt0',
  interfaceName: 'thunderbolt0',
  ...changes,
})

describe('who is heard of', () => {
  it('is connected to when it is paired, and a neighbour when it is not', () => {
    const { neighbours, wanted, found } = rig()
    neighbours.sighted(sighting('friend'))
    neighbours.sighted(sighting('stranger'))
    neighbours.sighted(sighting('stranger', { pairing: true }))
    expect(wanted).toEqual(['friend thunderbolt0'])
    expect(found).toEqual(['friend', 'stranger'])
    expect(neighbours.unpaired).toEqual([expect.objectContaining({ id: 'stranger', pairing: true })])
  })

  it('is not this host itself, but a copy of its key is', () => {
    const { neighbours, wanted } = rig()
    neighbours.sighted(sighting('me', me))
    neighbours.sighted(sighting('me', { hostTag: me.hostTag }))
    expect(neighbours.all).toEqual([])
    neighbours.sighted(sighting('me'))
    expect(wanted).toEqual(['me thunderbolt0'])
  })

  it('by hundreds on one cable keeps neither a peer on it from being heard, nor anybody on another', () => {
    const { neighbours, wanted, found } = rig()
    for (let index = 0; index < 500; index += 1) neighbours.sighted(sighting(`nobody ${index}`))
    expect(found).toHaveLength(64)
    neighbours.sighted(sighting('friend'))
    neighbours.sighted(sighting('stranger', { interfaceName: 'thunderbolt1' }))
    expect(wanted).toEqual(['friend thunderbolt0'])
    expect(found.slice(64)).toEqual(['friend', 'stranger'])
    expect(neighbours.all).toHaveLength(65)
  })
})
