import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { MeshNetwork } from '../helpers/mesh-network.ts'
import { Network, noNamespaces } from '../helpers/namespaces.ts'

/** Whatever the machine is busy with: every test here ends with the last answer, and not when its time is up. */
const settleMs = 100_000

describe.skipIf(noNamespaces !== undefined)('two hosts with two networks between them and no cable', () => {
  let mesh: MeshNetwork
  beforeAll(async () => {
    const network = await Network.create({ hosts: ['a', 'b'] })
    for (const interfaceName of ['eth0', 'eth1'])
      await network.join({ host: 'a', interfaceName }, { host: 'b', interfaceName })
    const settings = { lan: true, probeBytes: 0 }
    mesh = new MeshNetwork(network, {
      a: { cables: {}, settings: { ...settings, visitor: true, settleMs } },
      b: { cables: {}, settings: { ...settings, settleMs: 0 } },
    })
    await mesh.start('b')
  })
  afterAll(() => mesh[Symbol.asyncDispose]())

  const linksOfA = async (): Promise<readonly (string | undefined)[] | undefined> =>
    (await mesh.host('a').read()).peers[0]?.links.map(({ interfaceName }) => interfaceName).toSorted()

  it('are found on both by who looks once, however often', async () => {
    for (let look = 0; look < 10; look += 1) {
      await mesh.start('a')
      expect(await linksOfA()).toEqual(['eth0', 'eth1'])
      await mesh.host('a').ask({ run: 'stop' })
    }
  })

  it('are found on both although one of them answers much later', async () => {
    const { network } = mesh
    const hush = (value: 0 | 1): Promise<string> =>
      network.run('b', 'sh', '-c', `echo ${value} > /proc/sys/net/ipv6/conf/eth1/disable_ipv6`)
    await hush(1)
    const started = mesh.start('a')
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    await hush(0)
    await started
    expect(await linksOfA()).toEqual(['eth0', 'eth1'])
    await mesh.host('a').ask({ run: 'stop' })
  })

  it('and every peer that was written down is waited for', async () => {
    const { port } = await mesh.start('a', { visitor: false, lan: false, staticPeers: [], settleMs: 0 })
    await mesh.host('b').ask({ run: 'stop' })
    const addresses = ['10.77.1.1', '10.77.2.1']
    for (const [index, address] of addresses.entries()) {
      await mesh.network.ip('a', 'addr', 'add', `${address}/24`, 'dev', `eth${index}`)
      await mesh.network.ip('b', 'addr', 'add', `10.77.${index + 1}.2/24`, 'dev', `eth${index}`)
    }
    const staticPeers = addresses.map((address) => `${address}:${port}`)
    await mesh.start('b', { lan: false, staticPeers, settleMs })
    const { peers } = await mesh.host('b').read()
    expect(peers[0]?.links.map(({ interfaceName }) => interfaceName).toSorted()).toEqual(['eth0', 'eth1'])
  })
})
