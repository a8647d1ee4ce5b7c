import { appleMac, entry, intelMac, iopp, linkRegister, pci, tunnel } from './mac.ts'
import type { BoxOptions, PciOptions } from './mac.ts'
import type { Summary } from './summary.ts'
import type { TreeNode } from './registry-tree.ts'

/** A real Mac that somebody described in public, as far as they did, and the whole right answer. */
export interface MacCase {
  readonly name: string
  readonly source: string
  /** What the source does not tell and was made up to get a registry. */
  readonly synthetic: string
  readonly tree: () => TreeNode
  readonly systemExtensions?: string
  readonly expected: Summary
}

const tinygrad = (issue: number): string => `https://github.com/tinygrad/tinygrad/issues/${issue}`
const layout = 'bridges between root port and GPU, entry ids, UIDs'
const tinyGpu = 'org.tinygrad.tinygpu.driver2'

function driverExtension(bundleId: string): TreeNode {
  return entry('IOUserService', 'TinyGPUDriver', undefined, {
    CFBundleIdentifier: bundleId,
    IOUserServerName: bundleId,
  })
}

const gen4x4 = linkRegister(4, 4)
const gen3x4 = linkRegister(4, 3)
const vga = 0x030000

function nvidia(device: number, options: Partial<PciOptions> = {}, children: readonly TreeNode[] = []): TreeNode {
  return pci({ vendor: 0x10de, device, class: vga, tunnelled: true, ...options }, children)
}

function amd(device: number, options: Partial<PciOptions> = {}, children: readonly TreeNode[] = []): TreeNode {
  return pci({ vendor: 0x1002, device, class: vga, tunnelled: true, ...options }, children)
}

const coreXv2: BoxOptions = {
  className: 'IOThunderboltSwitchIntelJHL9480',
  uid: 0x8087b6dc08810300n,
  vendor: 'Razer',
  model: 'Core X V2',
  version: 64,
  speed: 2,
  width: 2,
}

const ts3Plus: BoxOptions = {
  vendor: 'CalDigit, Inc.',
  model: 'TS3 Plus',
  uid: 0x3d0000_1234n,
  version: 16,
  speed: 4,
  width: 2,
}

const nothing = { devices: [], enclosures: [], findings: [] } as const
const waiting = `*\t\tTEAM000000\t${tinyGpu} (1.0/1)\tTinyGPU\t[activated waiting for user]`
const enabled = `*\t*\tTEAM000000\t${tinyGpu} (1.0/1)\tTinyGPU\t[activated enabled]`

const box = (name: string, rest: Partial<Summary['enclosures'][number]> = {}): Summary['enclosures'][number] => ({
  name,
  port: 'receptacle1',
  ...rest,
})

/** What must not be taken for an external GPU. */
export const negatives: readonly MacCase[] = [
  {
    name: 'three idle receptacles, whose ports claim 10 Gb/s all the same',
    source: 'https://github.com/zopyx/usbscope tests/fixtures/tb_switch.plist at d460cb0',
    synthetic: 'entry ids',
    tree: () =>
      appleMac({
        type: 5,
        boxes: [undefined, undefined, undefined],
        pciBehind: [[], [], []],
        hostPciPort: { 'PCI Entry ID': 4294970058n },
        hostSwitch: { UID: 408840496304102592n, 'Device ID': 8201, 'Device Model ID': 15, 'Device Model Name': 'iOS' },
      }),
    expected: nothing,
  },
  {
    name: 'M5 Pro with a UGreen Thunderbolt 5 dock',
    source: 'https://github.com/darrylmorley/whatcable/issues/52',
    synthetic: `cable; ${layout}`,
    tree: () =>
      appleMac({
        type: 7,
        boxes: [
          {
            className: 'IOThunderboltSwitchIntelJHL9580',
            uid: 408828093217315794n,
            vendor: 'UGREEN',
            model: 'Thunderbolt 5 Dock',
            version: 64,
            speed: 2,
            width: 2,
            properties: { 'Device ID': 8210, 'Max Port Number': 11 },
          },
        ],
        pciBehind: [[tunnel({}, [pci({ vendor: 0x8086, device: 0x15f3, class: 0x020000, tunnelled: true })])]],
      }),
    expected: {
      ...nothing,
      enclosures: [box('Thunderbolt 5 Dock', { sticker: 'thunderbolt-5', trained: '2x40/2x40', generation: 4 })],
    },
  },
  {
    name: 'M3 Ultra with a Sabrent hub and a Type3 display chained behind it',
    source: 'https://github.com/darrylmorley/whatcable/issues/52',
    synthetic: `names, cables; ${layout}`,
    tree: () =>
      appleMac({
        type: 7,
        boxes: [
          {
            className: 'IOThunderboltSwitchIntelJHL8440',
            uid: 0x8087000000000a11n,
            vendor: 'Sabrent',
            model: 'Thunderbolt 4 Hub',
            version: 32,
            speed: 4,
            width: 2,
            chained: [
              { uid: 0x1000000000000b22n, vendor: 'Apple Inc.', model: 'Thunderbolt Display', speed: 8, width: 2 },
            ],
          },
        ],
        pciBehind: [[]],
      }),
    expected: {
      ...nothing,
      enclosures: [
        box('Thunderbolt 4 Hub', { sticker: 'thunderbolt-4', trained: '2x20/2x20', generation: 4 }),
        box('Thunderbolt Display', {
          sticker: 'thunderbolt-3',
          trained: '2x10/2x10',
          generation: 3,
          behind: 'Thunderbolt 4 Hub',
        }),
      ],
      findings: ['link-downgrade'],
    },
  },
  {
    name: 'CalDigit TS3 Plus with a Studio Display',
    source: 'https://github.com/darrylmorley/whatcable/issues/52',
    synthetic: `host; cable; ${layout}`,
    tree: () =>
      appleMac({
        type: 5,
        boxes: [
          ts3Plus,
          { vendor: 'Apple Inc.', model: 'Studio Display', uid: 0x5100n, version: 16, speed: 4, width: 2 },
        ],
        pciBehind: [
          [
            tunnel({ guid: 0x3d0000_1234n }, [
              pci({ vendor: 0x1b73, device: 0x1100, class: 0x0c0330, tunnelled: true }),
            ]),
          ],
        ],
      }),
    expected: {
      ...nothing,
      enclosures: [
        box('TS3 Plus', { sticker: 'thunderbolt-3', trained: '2x20/2x20', generation: 3 }),
        box('Studio Display', { sticker: 'thunderbolt-3', trained: '2x20/2x20', generation: 3, port: 'receptacle2' }),
      ],
    },
  },
  {
    name: 'an NVMe enclosure and a 10 GbE adapter over Thunderbolt',
    source: 'TBX-550CA of https://github.com/learex-zz/macOS-eGPU/issues/18; NVMe made up',
    synthetic: 'everything but the name of the adapter',
    tree: () =>
      appleMac({
        type: 5,
        boxes: [
          { vendor: 'QNAP', model: 'TBX-550CA', uid: 0x77n, version: 16, speed: 4, width: 2 },
          { vendor: 'OWC', model: 'Envoy Express', uid: 0x78n, version: 16, speed: 4, width: 2 },
        ],
        pciBehind: [
          [tunnel({ guid: 0x77n }, [pci({ vendor: 0x8086, device: 0x1563, class: 0x020000, tunnelled: true })])],
          [tunnel({ guid: 0x78n }, [pci({ vendor: 0x144d, device: 0xa808, class: 0x010802, tunnelled: true })])],
        ],
      }),
    expected: {
      ...nothing,
      enclosures: [
        box('TBX-550CA', { sticker: 'thunderbolt-3', trained: '2x20/2x20', generation: 3 }),
        box('Envoy Express', { sticker: 'thunderbolt-3', trained: '2x20/2x20', generation: 3, port: 'receptacle2' }),
      ],
    },
  },
  {
    name: 'MacPro6,1 with two D500 in its slots',
    source: 'https://github.com/learex-zz/macOS-eGPU/issues/18',
    synthetic: `device ids, driver class; ${layout}`,
    tree: () =>
      intelMac({
        type: 2,
        boxes: [undefined],
        model: 'MacPro6,1',
        internal: ['Slot-1', 'Slot-2'].map((slotName, index) =>
          pci({ vendor: 0x8086, device: 0x0e08, class: 0x060400, name: 'IOU0', location: `3,${index}` }, [
            iopp([
              amd(0x679e, { tunnelled: false, name: 'GFX0', slotName }, [
                entry('AMDRadeonX4000_AMDTahitiGraphicsAccelerator', 'AMDTahitiGraphicsAccelerator', undefined, {
                  CFBundleIdentifier: 'com.apple.kext.AMDRadeonX4000',
                }),
              ]),
            ]),
          ]),
        ),
      }),
    expected: {
      ...nothing,
      devices: ['Slot-1', 'Slot-2'].map((slot) => ({
        key: `internal-1002-679e@${slot}`,
        ids: '1002:679e',
        verdict: 'internal 0.95',
        stage: 'ready',
        driver: 'metal:com.apple.kext.AMDRadeonX4000',
        hops: ['real'],
      })),
    },
  },
  {
    name: 'iMac Pro with its Vega 64 inside',
    source: 'https://github.com/zeam-vm/cpu_info/issues/17',
    synthetic: `driver class; ${layout}`,
    tree: () =>
      intelMac({
        type: 3,
        boxes: [undefined],
        model: 'iMacPro1,1',
        internal: [
          pci({ vendor: 0x8086, device: 0x2030, class: 0x060400, name: 'PC02', location: '0' }, [
            iopp([
              amd(0x6860, { tunnelled: false, name: 'GFX0', link: linkRegister(16, 3) }, [
                entry('AMDRadeonX5000_AMDVega10GraphicsAccelerator', 'AMDVega10GraphicsAccelerator', undefined, {
                  CFBundleIdentifier: 'com.apple.kext.AMDRadeonX5000',
                }),
              ]),
            ]),
          ]),
        ],
      }),
    expected: {
      ...nothing,
      devices: [
        {
          key: 'internal-1002-6860@IOService:/AppleACPIPlatformExpert/PCI0@0/AppleACPIPCI/PC02@0/IOPP/GFX0@0',
          ids: '1002:6860',
          verdict: 'internal 0.7',
          stage: 'ready',
          driver: 'metal:com.apple.kext.AMDRadeonX5000',
          hops: ['real x16 8 GT/s'],
        },
      ],
    },
  },
  {
    name: 'MacPro7,1 with an MPX Vega II in its slot',
    source: 'https://github.com/exelban/stats/issues/2077 (no full dump is public)',
    synthetic: 'everything but the card and that it sits in a slot',
    tree: () =>
      intelMac({
        type: 3,
        boxes: [undefined],
        model: 'MacPro7,1',
        internal: [
          pci({ vendor: 0x8086, device: 0x2030, class: 0x060400, name: 'PC01', location: '0' }, [
            iopp([amd(0x66a3, { tunnelled: false, name: 'GFX0', slotName: 'Slot-3' })]),
          ]),
        ],
      }),
    expected: {
      ...nothing,
      devices: [
        {
          key: 'internal-1002-66a3@Slot-3',
          ids: '1002:66a3',
          verdict: 'internal 0.95',
          stage: 'present',
          hops: ['real'],
        },
      ],
    },
  },
  {
    name: 'an eGPU on plain PCI Express through an ADT-Link, which nothing marks as external',
    source: 'https://github.com/tylernguyen/x1c6-hackintosh/issues/132',
    synthetic: `card; ${layout}`,
    tree: () =>
      intelMac({
        type: 3,
        boxes: [undefined],
        internal: [
          pci({ vendor: 0x8086, device: 0x9d18, class: 0x060400, name: 'RP09', location: '1D' }, [
            iopp([amd(0x67df, { tunnelled: false, name: 'PXSX', link: gen3x4 })]),
          ]),
        ],
      }),
    expected: {
      ...nothing,
      devices: [
        {
          key: 'internal-1002-67df@IOService:/AppleACPIPlatformExpert/PCI0@0/AppleACPIPCI/RP09@1D/IOPP/PXSX@0',
          ids: '1002:67df',
          verdict: 'internal 0.7',
          stage: 'present',
          hops: ['real x4 8 GT/s'],
        },
      ],
    },
  },
  {
    name: 'the GPU of an Apple chip, which hangs on no PCI device',
    source: 'https://github.com/AsahiLinux class names of M-series registries',
    synthetic: 'everything but class and model property',
    tree: () =>
      appleMac({
        type: 7,
        boxes: [undefined],
        others: [
          entry('AGXAcceleratorG16X', 'AGXAcceleratorG16X', undefined, { model: 'Apple M4 Pro', 'gpu-core-count': 20 }),
        ],
      }),
    expected: {
      ...nothing,
      devices: [
        {
          key: 'apple-gpu',
          name: 'Apple M4 Pro',
          verdict: 'internal 1',
          stage: 'ready',
          driver: 'metal:AGXAcceleratorG16X',
        },
      ],
    },
  },
  {
    name: 'Tenstorrent P100 in a Core X V2: an accelerator of class 0x12 and no GPU',
    source: 'given case 19: 1e52:b140, IOPCITunnelled, link status 0x1044, class 0x12',
    synthetic: `host; cable; ${layout}`,
    tree: () =>
      appleMac({
        type: 7,
        boxes: [coreXv2],
        pciBehind: [
          [
            tunnel({ guid: coreXv2.uid }, [
              pci({ vendor: 0x1e52, device: 0xb140, class: 0x120000, tunnelled: true, link: 0x1044 }),
            ]),
          ],
        ],
      }),
    expected: {
      ...nothing,
      enclosures: [box('Core X V2', { sticker: 'thunderbolt-5', trained: '2x40/2x40', generation: 4 })],
      findings: ['external-accelerator'],
    },
  },
  {
    name: 'Mac mini 2018 with a Razer Core that macOS blocks',
    source: 'https://github.com/rgov/Thunderbolt3Unblocker/issues/45',
    synthetic: 'lanes behind the 20 Gb/s; UID; entry ids',
    tree: () =>
      intelMac({
        type: 3,
        boxes: [
          {
            uid: 0x15bf0001n,
            model: 'Core - Unsupported',
            vendor: 'Razer',
            speed: 8,
            width: 2,
            className: 'IOThunderboltSwitchType3',
          },
        ],
      }),
    expected: {
      ...nothing,
      enclosures: [box('Core', { sticker: 'thunderbolt-3', trained: '2x10/2x10', generation: 3, authorized: false })],
      findings: ['enclosure-blocked', 'link-downgrade'],
    },
  },
  {
    name: 'M4 Pro mini with a Core X V2 whose RX 7900 XTX does not come up',
    source: tinygrad(15864),
    synthetic: `cable; ${layout}`,
    tree: () => appleMac({ type: 7, boxes: [coreXv2], pciBehind: [[]] }),
    expected: {
      ...nothing,
      enclosures: [box('Core X V2', { sticker: 'thunderbolt-5', trained: '2x40/2x40', generation: 4 })],
      findings: ['enclosure-without-gpu'],
    },
  },
  {
    name: 'M4 with an AOOSTAR AG02 of which only the audio function shows',
    source: tinygrad(15760),
    synthetic: `router; ${layout}`,
    tree: () =>
      appleMac({
        type: 5,
        boxes: [
          {
            className: 'IOThunderboltSwitchUSB4',
            uid: 0xa602n,
            vendor: 'AOOSTAR',
            model: 'AG02',
            version: 32,
            speed: 4,
            width: 2,
          },
        ],
        pciBehind: [
          [
            tunnel({ vendor: 0x1b21, device: 0x2461 }, [
              pci({ vendor: 0x1002, device: 0xaaf0, class: 0x040300, tunnelled: true, location: '0,1' }),
            ]),
          ],
        ],
      }),
    expected: {
      ...nothing,
      enclosures: [box('AG02', { sticker: 'thunderbolt-4', trained: '2x20/2x20', generation: 4 })],
      findings: ['audio-function-only'],
    },
  },
  {
    name: 'M4 with an AG02 that fell back to USB 3',
    source: tinygrad(15760),
    synthetic: 'USB entry with the ids of the stock ASM2464 firmware',
    tree: () =>
      appleMac({
        type: 5,
        boxes: [undefined],
        others: [
          entry('IOUSBHostDevice', 'AG02', '00100000', {
            idVendor: 0x174c,
            idProduct: 0x2463,
            'USB Product Name': 'AG02',
          }),
        ],
      }),
    expected: { ...nothing, findings: ['usb-fallback'] },
  },
  {
    name: 'a USB disk with the same bridge chip',
    source: 'made up',
    synthetic: 'everything',
    tree: () =>
      appleMac({
        type: 5,
        boxes: [undefined],
        others: [
          entry('IOUSBHostDevice', 'NVMe', '00100000', { idVendor: 0x174c, idProduct: 0x2464 }, [
            entry('IOUSBHostInterface', 'IOUSBHostInterface', '0', {}, [entry('IOMedia', 'Disk', undefined)]),
          ]),
        ],
      }),
    expected: nothing,
  },
]

const enclosureKey = (slot: number): string => `enclosure-0x8087b6dc08810300-gpu${slot}`
const tb5Box = box('Core X V2', { sticker: 'thunderbolt-5', trained: '2x40/2x40', generation: 4 })
const appleInfo = { computeOnly: true, mappableBytes: 1.5 * 2 ** 30 } as const

/** Macs with an external GPU. */
export const positives: readonly MacCase[] = [
  {
    name: 'M5 Max, Core X V2, RTX 4090 that TinyGPU drives',
    source: tinygrad(15652),
    synthetic: layout,
    systemExtensions: enabled,
    tree: () =>
      appleMac({
        type: 7,
        boxes: [coreXv2],
        pciBehind: [
          [
            tunnel({ guid: coreXv2.uid }, [
              nvidia(0x2684, { link: gen4x4 }, [driverExtension(tinyGpu)]),
              pci({ vendor: 0x10de, device: 0x22ba, class: 0x040300, tunnelled: true, location: '0,1' }),
            ]),
          ],
        ],
      }),
    expected: {
      devices: [
        {
          key: enclosureKey(0),
          ids: '10de:2684',
          verdict: 'external 1',
          transport: 'usb4',
          stage: 'ready',
          driver: `dext:${tinyGpu}`,
          enclosure: 'Core X V2',
          port: 'receptacle1',
          sticker: 'thunderbolt-5',
          trained: '2x40/2x40',
          hops: ['virtual x4 2.5 GT/s', 'real x4 16 GT/s'],
          bottleneck: 'cable',
          apple: { ...appleInfo, drivenBy: tinyGpu, approval: 'approved' },
        },
      ],
      enclosures: [tb5Box],
      findings: [],
    },
  },
  {
    name: 'Mac mini M4, Sonnet 850 T5, RTX 3060 without BARs, its audio function listed first',
    source: tinygrad(15813),
    synthetic: `cable; ${layout}`,
    tree: () =>
      appleMac({
        type: 5,
        boxes: [
          {
            className: 'IOThunderboltSwitchIntelJHL9480',
            uid: 0x850n,
            vendor: 'Sonnet Technologies, Inc.',
            model: 'eGPU Breakaway Box 850 T5',
            version: 64,
            speed: 4,
            width: 2,
          },
        ],
        pciBehind: [
          [
            tunnel({ guid: 0x850n }, [
              pci({ vendor: 0x10de, device: 0x228e, class: 0x040300, tunnelled: true, location: '0,1' }),
              nvidia(0x2504, { link: gen4x4, slotName: 'Thunderbolt@3,0,0', properties: { IOPCIResourced: true } }),
            ]),
          ],
        ],
      }),
    expected: {
      devices: [
        {
          key: 'enclosure-0x0000000000000850-gpu0',
          ids: '10de:2504',
          verdict: 'external 1',
          transport: 'usb4',
          stage: 'present',
          enclosure: 'eGPU Breakaway Box 850 T5',
          port: 'receptacle1',
          sticker: 'thunderbolt-4',
          trained: '2x20/2x20',
          hops: ['virtual x4 2.5 GT/s', 'real x4 16 GT/s'],
          bottleneck: 'cable',
          apple: appleInfo,
        },
      ],
      enclosures: [box('eGPU Breakaway Box 850 T5', { sticker: 'thunderbolt-4', trained: '2x20/2x20', generation: 4 })],
      findings: ['bars-unassigned', 'gpu-undriven'],
    },
  },
  {
    name: 'M2 Max, RTX 5090 that TinyGPU drives, enclosure not told',
    source: tinygrad(16454),
    synthetic: layout,
    tree: () =>
      appleMac({
        type: 5,
        boxes: [undefined],
        pciBehind: [[tunnel({}, [nvidia(0x2b85, {}, [driverExtension(tinyGpu)])])]],
      }),
    expected: {
      devices: [
        {
          key: 'external-10de-2b85',
          ids: '10de:2b85',
          verdict: 'external 1',
          transport: 'unknown',
          stage: 'ready',
          driver: `dext:${tinyGpu}`,
          hops: ['virtual x4 2.5 GT/s', 'real'],
          apple: { ...appleInfo, drivenBy: tinyGpu, approval: 'approved' },
        },
      ],
      enclosures: [],
      findings: [],
    },
  },
  {
    name: 'AMD 0x7341 that reports x16 at 16 GT/s behind its own switch',
    source: tinygrad(15730),
    synthetic: `host, router, cable, the link into the slot; ${layout}`,
    tree: () =>
      appleMac({
        type: 5,
        boxes: [{ uid: 0x7341n, model: 'Node', vendor: 'AKiTiO', version: 16, speed: 4, width: 2 }],
        pciBehind: [
          [
            tunnel({ guid: 0x7341n, capabilities: gen3x4 }, [
              amd(0x1478, { class: 0x060400, link: gen3x4, capabilities: linkRegister(16, 4) }, [
                iopp([
                  amd(0x1479, { class: 0x060400, capabilities: linkRegister(16, 4) }, [
                    iopp([amd(0x7341, { link: linkRegister(16, 4), capabilities: linkRegister(16, 4) })]),
                  ]),
                ]),
              ]),
            ]),
          ],
        ],
      }),
    expected: {
      devices: [
        {
          key: 'enclosure-0x0000000000007341-gpu0',
          ids: '1002:7341',
          verdict: 'external 1',
          transport: 'thunderbolt',
          stage: 'present',
          enclosure: 'Node',
          port: 'receptacle1',
          sticker: 'thunderbolt-3',
          trained: '2x20/2x20',
          hops: ['virtual x4 2.5 GT/s', 'real x4 8 GT/s', 'internal x16 16 GT/s'],
          bottleneck: 'cable',
          apple: appleInfo,
        },
      ],
      enclosures: [box('Node', { sticker: 'thunderbolt-3', trained: '2x20/2x20', generation: 3 })],
      findings: ['gpu-undriven'],
    },
  },
  {
    name: 'MacBook Pro 2019, Core X, RTX 3060 Ti without a driver',
    source: tinygrad(16097),
    synthetic: `cable; ${layout}`,
    tree: () =>
      intelMac({
        type: 3,
        boxes: [{ uid: 0x3060n, vendor: 'Razer', model: 'Core X', version: 16, speed: 4, width: 2 }],
        pciBehind: [tunnel({ guid: 0x3060n }, [nvidia(0x2489, { properties: { pcidebug: '198:0:0' } })])],
      }),
    expected: {
      devices: [
        {
          key: 'enclosure-0x0000000000003060-gpu0',
          ids: '10de:2489',
          address: '0000:c6:00.0',
          verdict: 'external 1',
          transport: 'thunderbolt',
          stage: 'present',
          enclosure: 'Core X',
          port: 'receptacle1',
          sticker: 'thunderbolt-3',
          trained: '2x20/2x20',
          hops: ['real x4 8 GT/s', 'virtual x4 2.5 GT/s', 'real'],
        },
      ],
      enclosures: [box('Core X', { sticker: 'thunderbolt-3', trained: '2x20/2x20', generation: 3 })],
      findings: ['gpu-undriven', 'intel-panic-risk'],
    },
  },
  {
    name: 'MacBook Pro 13" 2020 (Ice Lake, Type4), AORUS RTX 3080 Gaming Box',
    source: tinygrad(16534),
    synthetic: `device id, cable; ${layout}`,
    tree: () =>
      intelMac({
        type: 4,
        boxes: [
          { uid: 0x3080n, vendor: 'GIGABYTE', model: 'AORUS RTX 3080 Gaming Box', version: 16, speed: 4, width: 2 },
        ],
        pciBehind: [tunnel({ guid: 0x3080n }, [nvidia(0x2206)])],
      }),
    expected: {
      devices: [
        {
          key: 'enclosure-0x0000000000003080-gpu0',
          ids: '10de:2206',
          verdict: 'external 1',
          transport: 'thunderbolt',
          stage: 'present',
          enclosure: 'AORUS RTX 3080 Gaming Box',
          port: 'receptacle1',
          sticker: 'thunderbolt-3',
          trained: '2x20/2x20',
          hops: ['real x4 8 GT/s', 'virtual x4 2.5 GT/s', 'real'],
        },
      ],
      enclosures: [box('AORUS RTX 3080 Gaming Box', { sticker: 'thunderbolt-3', trained: '2x20/2x20', generation: 3 })],
      findings: ['gpu-undriven', 'intel-panic-risk'],
    },
  },
  {
    name: 'M1, Core X V2, RTX 5060 Ti: a 40 Gb/s host before an 80 Gb/s box',
    source: tinygrad(14334),
    synthetic: `cable; ${layout}`,
    systemExtensions: waiting,
    tree: () =>
      appleMac({
        type: 5,
        boxes: [{ ...coreXv2, speed: 4 }],
        pciBehind: [[tunnel({ guid: coreXv2.uid }, [nvidia(0x2d04)])]],
      }),
    expected: {
      devices: [
        {
          key: enclosureKey(0),
          ids: '10de:2d04',
          verdict: 'external 1',
          transport: 'usb4',
          stage: 'present',
          enclosure: 'Core X V2',
          port: 'receptacle1',
          sticker: 'thunderbolt-4',
          trained: '2x20/2x20',
          hops: ['virtual x4 2.5 GT/s', 'real'],
          apple: { ...appleInfo, approval: 'waiting' },
        },
      ],
      enclosures: [box('Core X V2', { sticker: 'thunderbolt-4', trained: '2x20/2x20', generation: 4 })],
      findings: ['extension-waiting'],
    },
  },
  {
    name: 'MacBookPro15,1 with its own GPU, a Vega 64 that says x16, a dock, a 10 GbE adapter',
    source: 'https://github.com/learex-zz/macOS-eGPU/issues/18',
    synthetic: `enclosure name, which receptacle each is in, the internal GPU's ids, driver classes; ${layout}`,
    tree: () => {
      const vega = amd(0x687f, { link: linkRegister(16, 3), slotName: 'Thunderbolt@198,0,0' }, [
        entry('AMDRadeonX5000_AMDVega10GraphicsAccelerator', 'AMDVega10GraphicsAccelerator', undefined, {
          CFBundleIdentifier: 'com.apple.kext.AMDRadeonX5000',
        }),
      ])
      return intelMac({
        type: 3,
        model: 'MacBookPro15,1',
        boxes: [
          { uid: 0x64n, vendor: 'Razer', model: 'Core X', version: 16, speed: 4, width: 2 },
          ts3Plus,
          { vendor: 'QNAP', model: 'TBX-550CA', uid: 0x77n, version: 16, speed: 4, width: 2 },
        ],
        pciBehind: [
          tunnel({ guid: 0x64n }, [vega]),
          tunnel({ guid: ts3Plus.uid }, [
            pci({ vendor: 0x1b73, device: 0x1100, class: 0x0c0330, tunnelled: true }),
            pci({ vendor: 0x1b21, device: 0x1242, class: 0x0c0330, tunnelled: true, location: '1' }),
          ]),
        ],
        internal: [
          pci({ vendor: 0x8086, device: 0x1901, class: 0x060400, name: 'PEG0', location: '1' }, [
            iopp([
              amd(0x67ef, { tunnelled: false, name: 'GFX0' }, [
                entry('AMDRadeonX4000_AMDBaffinGraphicsAccelerator', 'AMDBaffinGraphicsAccelerator', undefined, {
                  CFBundleIdentifier: 'com.apple.kext.AMDRadeonX4000',
                }),
              ]),
            ]),
          ]),
        ],
      })
    },
    expected: {
      devices: [
        {
          key: 'enclosure-0x0000000000000064-gpu0',
          ids: '1002:687f',
          verdict: 'external 1',
          transport: 'thunderbolt',
          stage: 'ready',
          driver: 'metal:com.apple.kext.AMDRadeonX5000',
          enclosure: 'Core X',
          port: 'receptacle1',
          sticker: 'thunderbolt-3',
          trained: '2x20/2x20',
          hops: ['real x4 8 GT/s', 'virtual x4 2.5 GT/s', 'real x16 8 GT/s'],
          bottleneck: 'cable',
        },
        {
          key: 'internal-1002-67ef@IOService:/AppleACPIPlatformExpert/PCI0@0/AppleACPIPCI/PEG0@1/IOPP/GFX0@0',
          ids: '1002:67ef',
          verdict: 'internal 0.7',
          stage: 'ready',
          driver: 'metal:com.apple.kext.AMDRadeonX4000',
          hops: ['real'],
        },
      ],
      enclosures: [
        box('Core X', { sticker: 'thunderbolt-3', trained: '2x20/2x20', generation: 3 }),
        box('TS3 Plus', { sticker: 'thunderbolt-3', trained: '2x20/2x20', generation: 3, port: 'receptacle2' }),
        box('TBX-550CA', { sticker: 'thunderbolt-3', trained: '2x20/2x20', generation: 3, port: 'receptacle3' }),
      ],
      findings: [],
    },
  },
  {
    name: 'Macmini7,1 (Thunderbolt 2), AKiTiO Thunder2, RX 550 without a driver',
    source: 'https://github.com/mayankk2308/kryptonite/issues/45',
    synthetic: `cable; ${layout}`,
    tree: () =>
      intelMac({
        type: 2,
        model: 'Macmini7,1',
        boxes: [
          {
            className: 'IOThunderboltSwitchType2',
            uid: 0x550n,
            vendor: 'AKiTiO',
            model: 'Thunder2',
            version: 2,
            speed: 8,
            width: 2,
          },
        ],
        pciBehind: [tunnel({ guid: 0x550n }, [amd(0x699f)])],
      }),
    expected: {
      devices: [
        {
          key: 'enclosure-0x0000000000000550-gpu0',
          ids: '1002:699f',
          verdict: 'external 1',
          transport: 'thunderbolt',
          stage: 'present',
          enclosure: 'Thunder2',
          port: 'receptacle1',
          sticker: 'thunderbolt-2',
          trained: '2x10/2x10',
          hops: ['real x4 8 GT/s', 'virtual x4 2.5 GT/s', 'real'],
        },
      ],
      enclosures: [box('Thunder2', { sticker: 'thunderbolt-2', trained: '2x10/2x10', generation: 2 })],
      findings: ['gpu-undriven', 'intel-panic-risk'],
    },
  },
  {
    name: 'M1 mini with a Blackmagic eGPU: recognised, inert',
    source: 'https://www.macworld.co.uk/news/m1-mac-support-egpu-3798494',
    synthetic: `ids of its Radeon Pro 580, cable; ${layout}`,
    tree: () =>
      appleMac({
        type: 5,
        boxes: [
          { uid: 0x580n, vendor: 'Blackmagic Design', model: 'Blackmagic eGPU', version: 16, speed: 4, width: 2 },
        ],
        pciBehind: [[tunnel({ guid: 0x580n }, [amd(0x67df)])]],
      }),
    expected: {
      devices: [
        {
          key: 'enclosure-0x0000000000000580-gpu0',
          ids: '1002:67df',
          verdict: 'external 1',
          transport: 'thunderbolt',
          stage: 'present',
          enclosure: 'Blackmagic eGPU',
          port: 'receptacle1',
          sticker: 'thunderbolt-3',
          trained: '2x20/2x20',
          hops: ['virtual x4 2.5 GT/s', 'real'],
          apple: appleInfo,
        },
      ],
      enclosures: [box('Blackmagic eGPU', { sticker: 'thunderbolt-3', trained: '2x20/2x20', generation: 3 })],
      findings: ['gpu-undriven'],
    },
  },
  {
    name: 'RX 560 over Thunderbolt that Metal drives',
    source: 'Chromium swarming fixture: RX 560 1002:67ef, spdisplays_gpu_removable yes',
    synthetic: `host, enclosure, driver class, framebuffer with a display; ${layout}`,
    tree: () => {
      const display = entry('IODisplayConnect', 'display0', undefined)
      const framebuffer = entry('AMDFramebufferVIB', 'AMDFramebufferVIB', undefined, {}, [display])
      const accelerator = entry(
        'AMDRadeonX4000_AMDBaffinGraphicsAccelerator',
        'AMDBaffinGraphicsAccelerator',
        undefined,
        {
          CFBundleIdentifier: 'com.apple.kext.AMDRadeonX4000',
        },
      )
      return intelMac({
        type: 3,
        boxes: [
          { uid: 0x560n, vendor: 'Sonnet', model: 'eGFX Breakaway Puck RX 560', version: 16, speed: 4, width: 2 },
        ],
        pciBehind: [tunnel({ guid: 0x560n }, [amd(0x67ef, {}, [framebuffer, accelerator])])],
      })
    },
    expected: {
      devices: [
        {
          key: 'enclosure-0x0000000000000560-gpu0',
          ids: '1002:67ef',
          verdict: 'external 1',
          transport: 'thunderbolt',
          stage: 'ready',
          driver: 'metal:com.apple.kext.AMDRadeonX4000',
          enclosure: 'eGFX Breakaway Puck RX 560',
          port: 'receptacle1',
          sticker: 'thunderbolt-3',
          trained: '2x20/2x20',
          hops: ['real x4 8 GT/s', 'virtual x4 2.5 GT/s', 'real'],
          hasDisplays: true,
        },
      ],
      enclosures: [
        box('eGFX Breakaway Puck RX 560', { sticker: 'thunderbolt-3', trained: '2x20/2x20', generation: 3 }),
      ],
      findings: [],
    },
  },
  {
    name: 'a 3D-class card, which no driver extension takes',
    source: tinygrad(16476),
    synthetic: `card ids, host, enclosure; ${layout}`,
    systemExtensions: enabled,
    tree: () =>
      appleMac({
        type: 7,
        boxes: [coreXv2],
        pciBehind: [[tunnel({ guid: coreXv2.uid }, [nvidia(0x2321, { class: 0x030200, link: gen4x4 })])]],
      }),
    expected: {
      devices: [
        {
          key: enclosureKey(0),
          ids: '10de:2321',
          verdict: 'external 1',
          transport: 'usb4',
          stage: 'present',
          enclosure: 'Core X V2',
          port: 'receptacle1',
          sticker: 'thunderbolt-5',
          trained: '2x40/2x40',
          hops: ['virtual x4 2.5 GT/s', 'real x4 16 GT/s'],
          bottleneck: 'cable',
          apple: { ...appleInfo, approval: 'approved' },
        },
      ],
      enclosures: [tb5Box],
      findings: ['extension-class-mismatch'],
    },
  },
]

export const cases: readonly MacCase[] = [...negatives, ...positives]
