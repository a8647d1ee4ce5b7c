import { entry, linkRegister, pci, tunnel } from './mac.ts'
import { toPlist } from './registry-tree.ts'
import type { TreeNode } from './registry-tree.ts'

/** A small generator of numbers from a seed (mulberry32), so that a failure can be had again. */
export function random(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A dump that has one of everything the detector reads and is short, so that many can be tried. */
export function smallDump(): string {
  const port = (location: string, properties: TreeNode['properties'], children: readonly TreeNode[] = []): TreeNode =>
    entry(
      'IOThunderboltPort',
      'IOThunderboltPort',
      location,
      { 'Port Number': Number(location), ...properties },
      children,
    )
  const router = entry('IOThunderboltSwitchType3', 'IOThunderboltSwitchType3', '0', {
    UID: -9185171858847104256n,
    Depth: 1,
    'Device Vendor Name': 'Razer',
    'Device Model Name': 'Core X',
    'Device Vendor ID': 0x127,
    'Thunderbolt Version': 16,
    'ROM Version': 68,
    'EEPROM Revision': 3,
  })
  const lane = { 'Adapter Type': 1, 'Socket ID': '1', 'Current Link Speed': 4, 'Current Link Width': 2 }
  const host = entry('IOThunderboltSwitchType5', 'IOThunderboltSwitchType5', '0', { Depth: 0 }, [
    port('1', lane, [router]),
  ])
  const controller = entry('IOThunderboltControllerType5', 'IOThunderboltControllerType5', undefined, {}, [
    port('7', {}, [host]),
  ])
  const gpu = pci({ vendor: 0x10de, device: 0x2684, class: 0x030000, tunnelled: true, link: linkRegister(4, 4) }, [
    entry('IOUserService', 'TinyGPU', undefined, { CFBundleIdentifier: 'org.tinygrad.tinygpu.driver2' }),
  ])
  const audio = pci({ vendor: 0x1002, device: 0xaaf0, class: 0x040300, tunnelled: true })
  const armIo = entry('AppleARMIODevice', 'arm-io', undefined, {}, [
    entry('AppleARMIODevice', 'apciec0', undefined, {}, [
      tunnel({ guid: -9185171858847104256n }, [gpu]),
      tunnel({ guid: 5n }, [audio]),
    ]),
    entry('AppleARMIODevice', 'acio0', undefined, {}, [controller]),
    entry('AGXAcceleratorG16X', 'AGXAcceleratorG16X', undefined, { model: 'Apple M4 Pro' }),
    entry('IOUSBHostDevice', 'bridge', undefined, { idVendor: 0x174c, idProduct: 0x2463 }),
  ])
  return toPlist(entry('IORegistryEntry', 'Root', undefined, {}, [armIo]), { withoutInheritance: true })
}

const replacements = [
  '<true/>',
  '<false/>',
  '<integer>-1</integer>',
  '<integer>18446744073709551615</integer>',
  '<integer>0x7fffffffffffffff</integer>',
  '<integer>99999999999999999999999</integer>',
  '<real>nan</real>',
  '<real>1e308</real>',
  '<string></string>',
  '<string>&#x110000;&bogus;&amp;</string>',
  '<data>////</data>',
  '<data>!</data>',
  '<array/>',
  '<dict/>',
  '<array><dict><key>IORegistryEntryID</key><integer>4294967553</integer></dict></array>',
  '</dict>',
  '<!-- ',
  '<![CDATA[x]]>',
]

/** Damages a dump in one to four ways: bytes, cuts, values of another kind, entries that stand twice. */
export function mutate(dump: string, next: () => number): string {
  let text = dump
  for (let count = 1 + Math.floor(next() * 4); count > 0; count -= 1) text = mutateOnce(text, next)
  return text
}

function mutateOnce(text: string, next: () => number): string {
  const at = Math.floor(next() * text.length)
  switch (Math.floor(next() * 6)) {
    case 0:
      return text.slice(0, at) + String.fromCharCode(Math.floor(next() * 128)) + text.slice(at + 1)
    case 1:
      return text.slice(0, at)
    case 2:
      return text.slice(0, at) + text.slice(at + Math.floor(next() * 200))
    case 3: {
      const length = Math.floor(next() * 400)
      return text.slice(0, at) + text.slice(at, at + length) + text.slice(at)
    }
    default: {
      // The next value is replaced by one of another kind.
      const start = text.indexOf('</key>', at)
      if (start === -1) return text.slice(0, at)
      const open = start + '</key>'.length
      const end = text.indexOf('<key>', open)
      const value = replacements[Math.floor(next() * replacements.length)] as string
      return text.slice(0, open) + value + (end === -1 ? '' : text.slice(end))
    }
  }
}
