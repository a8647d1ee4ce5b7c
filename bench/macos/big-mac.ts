import { appleMac, entry, linkRegister, pci, tunnel } from '../../packages/driver-macos/test/mac.ts'
import type { TreeNode } from '../../packages/driver-macos/test/registry-tree.ts'

/**
 * A Mac with this many entries, in the proportions of a full M-series machine: three receptacles, an eGPU and two docks
 * with their functions, some USB devices, and thousands of entries that have nothing to do with it.
 */
export function bigMac(entries: number): TreeNode {
  const box = { uid: 1n, vendor: 'Razer', model: 'Core X', version: 16, speed: 4, width: 2 } as const
  const dock = { uid: 2n, vendor: 'CalDigit, Inc.', model: 'TS3 Plus', version: 16, speed: 4, width: 2 } as const
  const functions = (guid: bigint, count: number): TreeNode =>
    tunnel(
      { guid },
      Array.from({ length: count }, (_, index) =>
        pci({ vendor: 0x1b21, device: 0x1242 + index, class: 0x0c0330, tunnelled: true, location: index.toString(16) }),
      ),
    )
  const gpu = pci({ vendor: 0x10de, device: 0x2684, class: 0x030000, tunnelled: true, link: linkRegister(4, 3) })
  const usb = Array.from({ length: 12 }, (_, index) =>
    entry('IOUSBHostDevice', `device${index}`, undefined, { idVendor: index }),
  )
  const make = (filling: readonly TreeNode[]): TreeNode =>
    appleMac({
      type: 5,
      boxes: [box, dock, { ...dock, uid: 3n }],
      pciBehind: [[tunnel({ guid: 1n }, [gpu])], [functions(2n, 8)], [functions(3n, 8)]],
      others: [...usb, ...filling],
    })
  const missing = entries - countOf(make([]))
  const groups = Array.from({ length: Math.ceil(missing / 50) }, (_, group) => {
    const size = Math.min(50, missing - group * 50)
    const leaves = Array.from({ length: size - 1 }, (_unused, index) =>
      entry('IOService', `service${index}`, undefined, {
        IOProviderClass: 'IOResources',
        IOPowerManagement: { dictionary: { CurrentPowerState: 2 } },
      }),
    )
    return entry('AppleARMIODevice', `group${group}`, `${group}`, { compatible: { hex: '00' } }, leaves)
  })
  return make(groups)
}

export function countOf(tree: TreeNode): number {
  return 1 + tree.children.reduce((sum, child) => sum + countOf(child), 0)
}
