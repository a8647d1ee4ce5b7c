import type { DriverSnapshot } from '@egpu/core/driver'
import { describe, expect, it } from 'vitest'
import { macosDriver, plistSource } from '../src/index.ts'
import { appleMac, iopp, linkRegister, pci, tunnel } from './mac.ts'
import type { AppleMacOptions, BoxOptions } from './mac.ts'
import { toPlist } from './registry-tree.ts'
import type { TreeNode } from './registry-tree.ts'
import { summarize } from './summary.ts'

async function see(tree: TreeNode): Promise<DriverSnapshot> {
  await using driver = macosDriver({ source: plistSource(toPlist(tree)) })
  return await driver.list()
}

const card = (device = 0x2684): TreeNode =>
  pci({ vendor: 0x10de, device, class: 0x030000, tunnelled: true, link: linkRegister(4, 4) })

const boxOne: BoxOptions = { uid: 0x11n, vendor: 'Razer', model: 'Core X', version: 16, speed: 4, width: 2 }
const boxTwo: BoxOptions = { ...boxOne, uid: 0x22n }

function twoReceptacles(pciBehind: AppleMacOptions['pciBehind'], change: Partial<AppleMacOptions> = {}): TreeNode {
  return appleMac({ type: 5, boxes: [boxOne, boxTwo], pciBehind, ...change })
}

describe('joining a GPU to its box', () => {
  for (const uid of [0x8087b6dc08810300n, 2n ** 63n, -(2n ** 63n), 2n ** 63n - 1n, 2n ** 64n - 1n, -1n, 1n]) {
    it(`goes by the UID of the tunnel, whichever 64 bits it has: ${uid}`, async () => {
      const { devices } = await see(
        twoReceptacles([[], [tunnel({ guid: uid }, [card()])]], { boxes: [boxTwo, { ...boxOne, uid }] }),
      )
      const enclosureId = `0x${BigInt.asUintN(64, uid).toString(16).padStart(16, '0')}`
      expect(devices[0]).toMatchObject({ enclosureId, thunderboltPort: 'receptacle2' })
      expect(devices[0]?.verdict?.evidence.map((one) => one.signal)).toContain('tunnel-endpoint-guid')
    })
  }

  it('goes by the registry entry of the port the tunnel starts in', async () => {
    const plain = twoReceptacles([[], []])
    const ports = allEntries(plain).filter((node) => node.properties['Adapter Type'] === 0x100101)
    const second = ports[1] as TreeNode
    const root = allEntries(plain).find((node) => node.name === 'IOPP') as TreeNode
    // Behind the first root port, so that the number of the port would mislead.
    const tree = replace(plain, root, { ...root, children: [tunnel({ portId: second.id }, [card()])] })
    const { devices } = await see(tree)
    expect(devices[0]).toMatchObject({ enclosureId: '0x0000000000000022' })
    expect(devices[0]?.verdict?.evidence.map((one) => one.signal)).toContain('thunderbolt-entry-id')
  })

  it("goes by the path that a box's PCI Express port names, which leaves out locations", async () => {
    const path = 'IOService:/AppleARMPE/arm-io/apciec0@30000000/AppleT6000PCIeC/pcic0-bridge@0/IOPP/pci-bridge@0'
    const boxes = [boxOne, { ...boxTwo, pciPort: { 'PCI Path': path } }]
    const { devices } = await see(twoReceptacles([[tunnel({}, [card()])], []], { boxes }))
    expect(devices[0]).toMatchObject({ enclosureId: '0x0000000000000022' })
    expect(devices[0]?.verdict?.evidence.map((one) => one.signal)).toContain('pci-path')
  })

  it('goes by the number of the receptacle when nothing else is told', async () => {
    const { devices } = await see(twoReceptacles([[], [tunnel({}, [card()])]]))
    expect(devices[0]).toMatchObject({ enclosureId: '0x0000000000000022' })
    expect(devices[0]?.verdict?.evidence.map((one) => one.signal)).toContain('port-number')
  })

  it('stays unknown, link included, when two boxes could be meant', async () => {
    const boxes = [{ ...boxOne, chained: [boxTwo] }, undefined]
    const { devices } = await see(twoReceptacles([[tunnel({}, [card()])], []], { boxes }))
    expect(devices[0]?.verdict).toMatchObject({ conclusion: 'external', transport: 'unknown' })
    expect(devices[0]).toMatchObject({ enclosureId: undefined, thunderboltSpeed: undefined, key: 'external-10de-2684' })
    expect(devices[0]?.link).toMatchObject({ sticker: undefined, trained: undefined, effectiveGBps: undefined })
  })
})

describe('boxes in a row', () => {
  it('put the GPU of the second behind both cables and two tunnels, and the slower cable counts', async () => {
    const inner = tunnel({ guid: 0x22n }, [card()])
    const outer = tunnel({ guid: 0x11n }, [inner])
    const boxes = [{ ...boxOne, chained: [{ ...boxTwo, speed: 8 }] }]
    const { devices, enclosures, findings } = await see(appleMac({ type: 5, boxes, pciBehind: [[outer]] }))
    expect(devices[0]?.link?.hops.map((hop) => hop.kind)).toEqual(['virtual', 'virtual', 'real'])
    expect(devices[0]?.link?.trained?.toDevice).toEqual({ lanes: 2, gbpsPerLane: 10 })
    expect(devices[0]?.enclosureId).toBe('0x0000000000000022')
    expect(enclosures.map(({ id, parentId }) => [id, parentId])).toEqual([
      ['0x0000000000000011', undefined],
      ['0x0000000000000022', '0x0000000000000011'],
    ])
    // The first box has no card of its own.
    expect(findings.map((finding) => finding.code)).toEqual(['enclosure-without-gpu', 'gpu-undriven', 'link-downgrade'])
  })

  it('number two GPUs in one box along its ports', async () => {
    const two = tunnel({ guid: 0x11n }, [
      pci({ vendor: 0x8086, device: 0x15ef, class: 0x060400, tunnelled: true, location: '1' }, [iopp([card(0x2684)])]),
      pci({ vendor: 0x8086, device: 0x15ef, class: 0x060400, tunnelled: true, location: '2' }, [iopp([card(0x2684)])]),
    ])
    const { devices } = await see(appleMac({ type: 5, boxes: [boxOne], pciBehind: [[two]] }))
    expect(devices.map((device) => device.key)).toEqual([
      'enclosure-0x0000000000000011-gpu0',
      'enclosure-0x0000000000000011-gpu1',
    ])
    expect(devices.map((device) => device.identity.enclosureSlot)).toEqual([0, 1])
  })
})

describe('two cards of one kind that no box is known for', () => {
  it('get keys of their own', async () => {
    const { devices } = await see(
      appleMac({ type: 5, boxes: [undefined, undefined], pciBehind: [[tunnel({}, [card()])], [tunnel({}, [card()])]] }),
    )
    expect(devices.map((device) => device.key)).toEqual(['external-10de-2684', 'external-10de-2684#2'])
  })
})

describe('the cable', () => {
  const trainedWith = async (speed: number, width: number, type = 7): Promise<unknown> => {
    const box: BoxOptions = { ...boxOne, className: 'IOThunderboltSwitchIntelJHL9480', version: 64, speed, width }
    const { enclosures } = await see(appleMac({ type, boxes: [box], pciBehind: [[]] }))
    return summarize({ devices: [], enclosures, findings: [] }).enclosures[0]
  }

  it('is read lane by lane, in each direction', async () => {
    expect(await trainedWith(2, 4)).toMatchObject({ trained: '3x40/1x40' })
    expect(await trainedWith(2, 8)).toMatchObject({ trained: '1x40/3x40' })
    expect(await trainedWith(4, 1)).toMatchObject({ trained: '1x20/1x20' })
  })

  it('is unknown with a coding nobody knows', async () => {
    expect(await trainedWith(3, 2)).not.toHaveProperty('trained')
    expect(await trainedWith(4, 16)).not.toHaveProperty('trained')
    expect(await trainedWith(0, 2)).not.toHaveProperty('trained')
  })

  it('has no label behind a host controller that was never seen, and that is said', async () => {
    for (const type of [6, 8]) {
      const { devices, findings } = await see(
        appleMac({ type, boxes: [boxOne], pciBehind: [[tunnel({ guid: 0x11n }, [card()])]] }),
      )
      expect(devices[0]?.thunderboltSpeed).toBeUndefined()
      expect(findings.map((finding) => finding.code)).toContain('host-controller-unknown')
    }
  })
})

describe('verdicts', () => {
  it('do not call a GPU behind a native hot-plug slot internal, nor external', async () => {
    const slot = pci({ vendor: 0x8086, device: 0x9d18, class: 0x060400, properties: { IOPCIHotPlug: true } }, [
      iopp([pci({ vendor: 0x1002, device: 0x67df, class: 0x030000 })]),
    ])
    const { devices } = await see(appleMac({ type: 5, boxes: [], pciBehind: [[slot]] }))
    expect(devices[0]?.verdict).toMatchObject({ conclusion: 'unknown', confidence: 0 })
  })

  it('are not made by a slot name or by a box on the same receptacle', async () => {
    const gpu = pci({ vendor: 0x10de, device: 0x2684, class: 0x030000, slotName: 'Thunderbolt@3,0,0' })
    const { devices } = await see(appleMac({ type: 5, boxes: [boxOne], pciBehind: [[gpu]] }))
    expect(devices[0]?.verdict?.conclusion).toBe('internal')
  })

  it('name a driver extension that takes every device, and do not call its GPU ready', async () => {
    const service = { CFBundleIdentifier: 'org.example.vfio' }
    const gpu = card()
    const held = {
      ...gpu,
      children: [{ ...gpu, id: gpu.id + 1_000_000n, className: 'IOUserService', name: 'vfio', properties: service }],
    }
    const { devices } = await see(
      appleMac({ type: 5, boxes: [boxOne], pciBehind: [[tunnel({ guid: 0x11n }, [held])]] }),
    )
    expect(devices[0]).toMatchObject({ stage: 'present', kernelDriver: 'dext:org.example.vfio' })
  })
})

function allEntries(tree: TreeNode): readonly TreeNode[] {
  return [tree, ...tree.children.flatMap(allEntries)]
}

function replace(tree: TreeNode, old: TreeNode, by: TreeNode): TreeNode {
  return tree === old ? by : { ...tree, children: tree.children.map((child) => replace(child, old, by)) }
}
