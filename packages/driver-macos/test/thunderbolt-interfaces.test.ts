import { describe, expect, it } from 'vitest'
import { plistSource, thunderboltInterfaces } from '../src/index.ts'
import { FakeMac } from './fake-iokit.ts'
import { appleMac, entry, findEntry } from './mac.ts'
import { toPlist } from './registry-tree.ts'
import type { TreeNode } from './registry-tree.ts'

const ownDomain = '2A3B4C5D-0000-4000-8000-00000000000A'
const peerDomain = '2a3b4c5d-0000-4000-8000-00000000000b'

/** Classes and keys as measured on Macs with a cable between them; the values are made up. */
function withInterface(name: string | undefined, up: boolean): TreeNode {
  const properties = name === undefined ? {} : { 'BSD Name': name, IOMaxTransferUnit: 9000 }
  return entry('IOThunderboltLocalNode', 'IOThunderboltLocalNode', undefined, { 'Domain UUID': ownDomain }, [
    entry('AppleThunderboltIPService', 'AppleThunderboltIPService', undefined, {}, [
      entry(
        'AppleThunderboltIPPort',
        'AppleThunderboltIPPort',
        undefined,
        { IOLinkStatus: up ? 3 : 1, IOLinkSpeed: 10_000_000_000n },
        [entry('IOEthernetInterface', name ?? 'unnamed', undefined, properties)],
      ),
    ]),
  ])
}

const peer = (): TreeNode =>
  entry('IOThunderboltXDomainLink', 'IOThunderboltXDomainLink', '1', {
    'Domain UUID': peerDomain,
    'Device Name': 'Mac17,7',
  })

async function both(tree: TreeNode): Promise<unknown> {
  const mac = await FakeMac.boot(tree)
  const before = mac.counts()
  const live = mac.source()
  const fromKernel = await thunderboltInterfaces({ source: live })
  await live[Symbol.asyncDispose]()
  expect(mac.counts()).toEqual(before)
  expect(await thunderboltInterfaces({ source: plistSource(toPlist(tree)) })).toEqual(fromKernel)
  return fromKernel
}

describe('thunderboltInterfaces', () => {
  it('joins an interface to the computer at the far end and to what its cable trained to', async () => {
    const tree = appleMac({ type: 7, boxes: [undefined], belowController: [withInterface('en5', true)] })
    const lane = findEntry(tree, (node) => node.className === 'IOThunderboltPort' && node.location === '1')
    const joined = replace(tree, lane, {
      ...lane,
      properties: { ...lane.properties, 'Current Link Speed': 4, 'Current Link Width': 2 },
      children: [peer()],
    })
    expect(await both(joined)).toEqual([
      {
        name: 'en5',
        isUp: true,
        claimedGbps: 10,
        mtu: 9000,
        domainUuid: ownDomain.toLowerCase(),
        peers: [
          {
            domainUuid: peerDomain,
            deviceName: 'Mac17,7',
            receptacle: 'receptacle1',
            trained: { toDevice: { lanes: 2, gbpsPerLane: 20 }, fromDevice: { lanes: 2, gbpsPerLane: 20 } },
          },
        ],
      },
    ])
  })

  it('names no receptacle for a peer that hangs on the controller itself', async () => {
    const tree = appleMac({ type: 5, boxes: [undefined], belowController: [withInterface('en1', true), peer()] })
    expect(await both(tree)).toMatchObject([
      { name: 'en1', peers: [{ domainUuid: peerDomain, receptacle: undefined }] },
    ])
  })

  it('tells of an interface without cable as down and without peers', async () => {
    const tree = appleMac({ type: 5, boxes: [undefined], belowController: [withInterface('en3', false)] })
    expect(await both(tree)).toMatchObject([{ name: 'en3', isUp: false, peers: [] }])
  })

  it('leaves out an interface that has no name yet, and sees none where there is none', async () => {
    expect(
      await both(appleMac({ type: 5, boxes: [undefined], belowController: [withInterface(undefined, true)] })),
    ).toEqual([])
    expect(await both(appleMac({ type: 5, boxes: [undefined] }))).toEqual([])
  })

  it('rejects with the abort reason, and with EGPU_NATIVE_UNAVAILABLE off macOS', async () => {
    const reason = new Error('no')
    await expect(thunderboltInterfaces({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    if (process.platform === 'darwin') return
    await expect(thunderboltInterfaces()).rejects.toMatchObject({ code: 'EGPU_NATIVE_UNAVAILABLE' })
  })
})

function replace(tree: TreeNode, old: TreeNode, by: TreeNode): TreeNode {
  return tree === old ? by : { ...tree, children: tree.children.map((child) => replace(child, old, by)) }
}
