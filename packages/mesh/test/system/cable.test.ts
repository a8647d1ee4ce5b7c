import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Cable } from '../helpers/cable.ts'
import { MeshNetwork } from '../helpers/mesh-network.ts'
import { Network, noNamespaces } from '../helpers/namespaces.ts'

describe.skipIf(noNamespaces !== undefined)('two hosts with two cables', () => {
  let mesh: MeshNetwork
  let near: Cable
  let far: Cable
  beforeAll(async () => {
    const network = await Network.create({ hosts: ['a', 'b'], lan: true })
    const ends = (number: number) =>
      [
        { host: 'a', interfaceName: `thunderbolt${number}` },
        { host: 'b', interfaceName: `thunderbolt${number}` },
      ] as const
    far = await network.cable(...ends(0), { delayUs: 2_000 })
    near = await network.cable(...ends(1), { delayUs: 100 })
    const cables = { thunderbolt0: {}, thunderbolt1: {} }
    const settings = { lan: true, probeBytes: 0 }
    mesh = new MeshNetwork(network, { a: { cables, settings }, b: { cables, settings } })
    await mesh.startAll()
  })
  afterAll(() => mesh[Symbol.asyncDispose]())

  it('are one peer to each other, with three links: both cables and the LAN, cables first', async () => {
    const { peers } = await mesh
      .host('a')
      .until(
        (reading) =>
          reading.peers[0]?.links.length === 3 &&
          reading.peers[0].links.every(({ measured }) => measured.latencyUs !== undefined),
      )
    expect(peers).toHaveLength(1)
    expect(peers[0]?.links.map(({ interfaceName }) => interfaceName)).toEqual(['thunderbolt1', 'thunderbolt0', 'eth0'])
  })

  it('use the nearer cable, although the LAN is nearer still', async () => {
    expect(await mesh.host('a').best('latency')).toMatchObject({ hostname: 'b', interfaceName: 'thunderbolt1' })
    expect(await mesh.host('b').best('latency')).toMatchObject({ hostname: 'a', interfaceName: 'thunderbolt1' })
  })

  it('tell a link that works one way only from one that is silent, each from its side', async () => {
    const [a, b] = [mesh.host('a'), mesh.host('b')]
    const since = Date.now()
    await near.loss(0, 1000)
    const [atA, atB] = await Promise.all([
      a.event('link-down', () => true, since),
      b.event('link-down', () => true, since),
    ])
    expect([atA.link.interfaceName, atA.reason, atB.reason]).toEqual(['thunderbolt1', 'one-way', 'silent'])
    const { findings, activePeerCount } = await a.read()
    expect(findings.map(({ code }) => code)).toContain('one-way-link')
    expect(activePeerCount).toBe(1)
    expect(await a.best('latency')).toMatchObject({ interfaceName: 'thunderbolt0' })
  })

  it('go back to the better cable once it works again', async () => {
    const since = Date.now()
    await near.loss(0, 0)
    await mesh.host('a').event('link-up', ({ link }) => link.interfaceName === 'thunderbolt1', since)
    await mesh
      .host('a')
      .until(
        ({ peers }) =>
          peers[0]?.links[0]?.interfaceName === 'thunderbolt1' && peers[0].links[0].measured.latencyUs !== undefined,
      )
    expect(await mesh.host('a').best('latency')).toMatchObject({ interfaceName: 'thunderbolt1' })
    expect((await mesh.host('a').read()).findings).toEqual([])
  })

  it('are not lost while the main thread of one is busy for longer than a dead host is given', async () => {
    const since = Date.now()
    await mesh.host('b').ask({ run: 'block', ms: 3_000 })
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(mesh.host('a').events.filter(({ type, at }) => type === 'link-down' && at >= since)).toEqual([])
  })

  it('fall back to the LAN when both cables are pulled', async () => {
    const a = mesh.host('a')
    await Promise.all([near.carrier(false), far.carrier(false)])
    await a.until(({ peers }) => peers[0]?.links.length === 1)
    expect(await a.best('bandwidth')).toMatchObject({ hostname: 'b', interfaceName: 'eth0' })
    await Promise.all([near.carrier(true), far.carrier(true)])
    await a.until(({ peers }) => peers[0]?.links.length === 3)
  })
})

describe.skipIf(noNamespaces !== undefined)('a host on the cable that is no friend', () => {
  let mesh: MeshNetwork
  beforeAll(async () => {
    const network = await Network.create({ hosts: ['a', 'b', 'x'] })
    await network.join({ host: 'a', interfaceName: 'thunderbolt0' }, { host: 'b', interfaceName: 'thunderbolt0' })
    await network.join({ host: 'a', interfaceName: 'thunderbolt1' }, { host: 'x', interfaceName: 'thunderbolt0' })
    const settings = { probeBytes: 0, settleMs: 2_000 }
    mesh = new MeshNetwork(network, {
      a: { cables: { thunderbolt0: {}, thunderbolt1: {} }, settings },
      b: { cables: { thunderbolt0: {} }, settings },
      x: { cables: { thunderbolt0: {} }, settings },
    })
    await Promise.all([mesh.start('a'), mesh.start('b')])
  })
  afterAll(() => mesh[Symbol.asyncDispose]())

  it('gets nowhere by announcing a peer and a hundred hosts: the peer is met on its own cable, and a new start too', async () => {
    const a = mesh.host('a')
    const { port } = await mesh.start('x')
    const liar = mesh.lie('x', 'thunderbolt0', { port, peer: 'b', strangers: 100 })
    const lied = await a.event('refused', ({ error }) => error.code === 'EGPU_PEER_NOT_TRUSTED')
    expect(lied.peerId).toBe(mesh.ids['x'])
    const since = Date.now()
    await mesh.host('b').ask({ run: 'stop' })
    await a.event('peer-lost', ({ peer }) => peer.hostname === 'b', since)
    await mesh.start('b')
    await a.event('peer-connected', ({ peer }) => peer.hostname === 'b', since)
    const { peers, neighbours } = await a.read()
    expect(Object.fromEntries(peers.map(({ hostname, links }) => [hostname, links[0]?.interfaceName]))).toEqual({
      b: 'thunderbolt0',
      x: 'thunderbolt1',
    })
    expect(neighbours.length).toBeLessThanOrEqual(64)
    liar.kill('SIGKILL')
    await mesh.host('x').ask({ run: 'stop' })
    await a.until(({ activePeerCount }) => activePeerCount === 1)
  })

  it('is found out when it has the key of a peer: the peer stays, the copy is refused with a reason', async () => {
    await mesh.startAs('x', 'b')
    const refused = await mesh.host('a').event('refused', ({ error }) => error.code === 'EGPU_IDENTITY_COPIED')
    expect(refused.peerId).toBe(mesh.ids['b'])
    const { peers, findings } = await mesh.host('a').read()
    expect(peers.map(({ hostname, links }) => [hostname, links[0]?.interfaceName])).toEqual([['b', 'thunderbolt0']])
    expect(findings.map(({ code }) => code)).toContain('identity-copied')
  })
})
