import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { MeshNetwork } from '../helpers/mesh-network.ts'
import { Network, noNamespaces } from '../helpers/namespaces.ts'

const end = (host: string, number: number): { host: string; interfaceName: string } => ({
  host,
  interfaceName: `thunderbolt${number}`,
})

/** Three hosts, each joined to the other two by a cable, and all three by a LAN; link-local IPv4 overlaps on purpose. */
async function triangle(): Promise<Network> {
  const network = await Network.create({ hosts: ['a', 'b', 'c'], lan: true })
  const cables = [
    ['a', 0, 'b', 0],
    ['b', 1, 'c', 0],
    ['c', 1, 'a', 1],
  ] as const
  for (const [index, [one, portOne, other, portOther]] of cables.entries()) {
    await network.join(end(one, portOne), end(other, portOther), index === 0 ? { mtu: 65_520, mtuB: 9000 } : {})
    await network.ip(one, 'addr', 'add', `169.254.${index}.1/16`, 'dev', `thunderbolt${portOne}`)
    await network.ip(other, 'addr', 'add', `169.254.${index}.2/16`, 'dev', `thunderbolt${portOther}`)
  }
  return network
}

describe.skipIf(noNamespaces !== undefined)('three hosts in a triangle of cables', () => {
  let mesh: MeshNetwork
  const cables = { thunderbolt0: {}, thunderbolt1: {} }
  beforeAll(async () => {
    mesh = new MeshNetwork(await triangle(), {
      a: { cables },
      b: { cables: { thunderbolt0: { mtu: 9000 }, thunderbolt1: {} } },
      c: { cables },
    })
    // Nothing but cables: what is found is found without the LAN.
    await Promise.all(['a', 'b', 'c'].map((host) => mesh.network.ip(host, 'link', 'set', 'eth0', 'down')))
    await mesh.startAll()
  })
  afterAll(() => mesh[Symbol.asyncDispose]())

  it('find each other on every cable with the LAN down, each once, by name and key', async () => {
    for (const name of ['a', 'b', 'c']) {
      const { peers, totalBandwidthGbps } = await mesh.host(name).until(({ activePeerCount }) => activePeerCount === 2)
      const others = ['a', 'b', 'c'].filter((other) => other !== name)
      expect(peers.map(({ hostname }) => hostname).toSorted()).toEqual(others)
      expect(new Set(peers.map(({ id }) => id))).toEqual(new Set(others.map((other) => mesh.ids[other])))
      for (const { links } of peers) {
        expect(links).toHaveLength(1)
        expect(links[0]).toMatchObject({ kind: 'thunderbolt' })
        // Overlapping 169.254/16 addresses are of no concern: the zone says by which cable to go.
        expect(links[0]?.address.endsWith(`%${links[0].interfaceName}`)).toBe(true)
      }
      expect(totalBandwidthGbps).toBe(80)
    }
  })

  it('name a cable alike at both ends', async () => {
    const idOf = async (host: string, other: string): Promise<string | undefined> =>
      (await mesh.host(host).read()).peers.find(({ hostname }) => hostname === other)?.links[0]?.id
    expect(await idOf('a', 'b')).toBe(await idOf('b', 'a'))
    expect(await idOf('a', 'c')).not.toBe(await idOf('a', 'b'))
  })

  it('see that the two ends of a cable have different MTUs', async () => {
    const { findings } = await mesh.host('a').until(({ findings: found }) => found.length > 0)
    expect(findings.map(({ code, seen }) => [code, seen])).toEqual([
      ['mtu-mismatch', 'thunderbolt0 has MTU 65520, but b uses 9000 at its end.'],
    ])
  })

  it('go on as they were when the LAN comes up', async () => {
    await Promise.all(['a', 'b', 'c'].map((host) => mesh.network.ip(host, 'link', 'set', 'eth0', 'up')))
    await new Promise((resolve) => setTimeout(resolve, 500))
    const { peers } = await mesh.host('a').read()
    const used = peers.flatMap(({ links }) => links.map(({ interfaceName }) => interfaceName))
    expect(new Set(used)).toEqual(new Set(['thunderbolt0', 'thunderbolt1']))
    expect(used).toHaveLength(2)
  })

  it('hear of what a peer offers, and pick the one with the most memory', async () => {
    await mesh.host('b').ask({ run: 'offer', memoryBytes: 8e9 })
    await mesh.host('c').ask({ run: 'offer', memoryBytes: 24e9 })
    await mesh.host('a').until(({ peers }) => peers.every(({ targets }) => targets.length === 1))
    expect(await mesh.host('a').best('memory')).toMatchObject({ hostname: 'c', memoryBytes: 24e9 })
  })

  it('hear at once of a pulled cable, keep the other peer, and find the first again when it is back', async () => {
    const a = mesh.host('a')
    const pulledAt = Date.now()
    await mesh.network.ip('b', 'link', 'set', 'thunderbolt0', 'down')
    const down = await a.event('link-down', () => true, pulledAt)
    expect([down.peer.hostname, down.reason]).toEqual(['b', 'link-down'])
    await a.event('peer-lost', () => true, pulledAt)
    expect((await a.read()).peers.map(({ hostname }) => hostname)).toEqual(['c'])
    await mesh.network.ip('b', 'link', 'set', 'thunderbolt0', 'up')
    await a.event('peer-connected', ({ peer }) => peer.hostname === 'b', pulledAt)
  })

  it('find a host again that was killed and started anew, under another name', async () => {
    const a = mesh.host('a')
    const killedAt = Date.now()
    mesh.host('c').child.kill('SIGKILL')
    const lost = await a.event('peer-lost', ({ peer }) => peer.hostname === 'c', killedAt)
    await mesh.restart('c', { name: 'renamed' })
    const back = await a.event('peer-connected', ({ peer }) => peer.hostname === 'renamed', killedAt)
    expect(back.peer.id).toBe(lost.peer.id)
  })
})
