import { describe, expect, it } from 'vitest'
import { macosDriver } from '../src/driver.ts'
import { plistSource } from '../src/plist/source.ts'
import { recordMac } from '../src/recording/record.ts'
import type { RegistrySource } from '../src/registry/source.ts'
import { cases } from './cases.ts'
import { appleMac, entry, pci, tunnel } from './mac.ts'
import { toPlist } from './registry-tree.ts'
import type { TreeNode } from './registry-tree.ts'

/** What macosDriver says of a dump, with every unique id replaced by the number of its first appearance. */
async function answer(dump: string, systemExtensions?: string): Promise<unknown> {
  await using driver = macosDriver({ source: plistSource(dump, { systemExtensions }) })
  const known = new Map<string, string>()
  const number = (id: string): string => {
    if (!known.has(id)) known.set(id, `id${known.size}`)
    return known.get(id) as string
  }
  return JSON.parse(JSON.stringify(await driver.list()).replaceAll(/0x[\da-f]{16}/g, number))
}

describe('a recording of a Mac', () => {
  it.each(cases.map((one) => [one.name, one] as const))('is answered like the Mac itself: %s', async (_name, one) => {
    const dump = toPlist(one.tree())
    const recording = await recordMac({ source: plistSource(dump, { systemExtensions: one.systemExtensions }) })
    expect(await answer(recording)).toEqual(await answer(dump, one.systemExtensions))
  })

  it('holds no unique id of a box, in neither spelling, and never the same stand-in twice', async () => {
    const uid = 0x00d4_5566_7788_9900n
    const tree = appleMac({
      type: 7,
      boxes: [{ uid, vendor: 'Razer', model: 'Core X V2', speed: 2, width: 2 }],
      pciBehind: [[tunnel({ guid: uid }, [pci({ vendor: 0x10de, device: 0x2b85, class: 0x030000 })])]],
    })
    const source = (): RegistrySource => plistSource(toPlist(tree))
    const [one, two] = [await recordMac({ source: source() }), await recordMac({ source: source() })]
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64LE(uid)
    for (const recording of [one, two]) {
      expect(recording).toContain('Core X V2')
      expect(recording).not.toContain(String(uid))
      expect(recording).not.toContain(bytes.toString('base64'))
    }
    expect(one).not.toBe(two)
    await using driver = macosDriver({ source: plistSource(one) })
    const { devices, enclosures } = await driver.list()
    expect(devices.map(({ enclosureId }) => enclosureId)).toEqual(enclosures.map(({ id }) => id))
  })

  it('leaves out serial numbers, network addresses, volumes, and USB devices that are no GPU box', async () => {
    const secrets = {
      IOPlatformSerialNumber: 'C02SECRET',
      IOMACAddress: { hex: '0011223344ff' },
      'USB Serial Number': 'SN77',
    }
    const disk = (): TreeNode => entry('IOMedia', 'Backup of Anna', undefined, secrets)
    const usb = (name: string, idVendor: number, idProduct: number): TreeNode =>
      entry('IOUSBHostDevice', name, '00100000', { ...secrets, idVendor, idProduct, 'USB Product Name': name }, [
        disk(),
      ])
    const others = [usb('Stick of Anna', 0x0781, 0x5581), usb('AG02', 0x174c, 0x2463)]
    const recording = await recordMac({ source: plistSource(toPlist(appleMac({ type: 5, boxes: [], others }))) })
    expect(recording).not.toMatch(/SECRET|Anna|SN77|ABEiM0T/)
    expect(recording).toContain('AG02')
  })

  it('keeps of all extensions only those that drive GPUs', async () => {
    const line = (name: string): string => `*\t*\tTEAM\torg.${name} (1.0/1)\t${name}\t[activated enabled]`
    const systemExtensions = ['enabled\tactive\tteamID', line('antivirus.net'), line('tinygrad.tinygpu.driver')].join(
      '\n',
    )
    const dump = toPlist(appleMac({ type: 5, boxes: [] }))
    const recording = await recordMac({ source: plistSource(dump, { systemExtensions }) })
    expect(recording).not.toContain('antivirus')
    expect(await plistSource(recording).systemExtensions?.({})).toBe(line('tinygrad.tinygpu.driver'))
  })
})
