import type { ExpectedGpu, Machine, PciNode } from '../machine.ts'
import {
  amdAnswer,
  amdCard,
  amdProcessor,
  audio,
  bridge,
  intelAnswer,
  intelCard,
  intelGraphics,
  link,
  noLink,
  usb4Domain,
} from '../parts.ts'

const oculinkCard: PciNode = bridge(
  '64:00.0',
  '1002:1478',
  [
    bridge(
      '65:00.0',
      '1002:1479',
      [
        {
          at: '66:00.0',
          id: '1002:7550',
          subsystem: '1da2:e490',
          class: '030000',
          driver: 'amdgpu',
          link: link(32, 16, 32, 16),
        },
        audio('66:00.1', '1002:ab40'),
      ],
      { link: link(32, 16, 32, 16) },
    ),
  ],
  { link: link(16, 4, 32, 16) },
)

const oculinkLink = {
  hops: ['0000:64:00.0 real 16 x4', '0000:66:00.0 internal 32 x16'],
  bottleneck: '0000:64:00.0',
  effective: 6.63,
} as const

/**
 * 00:03.1 is a USB4 port on other machines with this processor; here it is a plain GPP bridge (14ee, not 14ef) that
 * leads to the OCuLink connector. Nothing in the kernel says so: it can only be likely.
 */
export const oculinkHandheld: Machine = {
  name: 'gpd-win-4-deg1-rx9070xt',
  case: 31,
  origin: 'bugzilla.kernel.org 221540',
  facts: 'partial',
  assumed: 'subsystem ids (a Sapphire card), chassis type, the processor graphics',
  kernel: '6.16.0',
  dmi: { chassis: 31, vendor: 'GPD', product: 'G1618-04' },
  pci: [
    bridge('00:03.1', '1022:14ee', [oculinkCard], { link: link(16, 4, 16, 4) }),
    bridge('00:04.1', '1022:14ef', [], { link: noLink }),
    ...amdProcessor('c4', '1002:15bf', 'c6', ['1022:1668', '1022:1669']),
  ],
  thunderbolt: [usb4Domain(0, 'c6:00.6')],
  cards: [
    amdCard('c4', 'card1'),
    { name: 'card0', pci: '66:00.0', render: 'renderD129', connectors: { 'DP-4': 'connected' } },
  ],
  expected: {
    gpus: {
      '0000:c4:00.0': amdAnswer('c4', '1002:15bf', 'card1'),
      '0000:66:00.0': {
        key: '1002:7550:1da2:e490@03.1/00.0/00.0/00.0',
        verdict: 'external',
        confidence: 'low',
        transport: 'oculink',
        stage: 'ready',
        driver: 'amdgpu',
        power: 'active',
        displays: ['card0/DP-4'],
        link: oculinkLink,
      },
    },
    enclosures: {},
    findings: ['verdict-uncertain info'],
  },
}

const rebased = (node: PciNode): PciNode => ({
  ...node,
  at: node.at.replace(/^6/, '2'),
  below: (node.below ?? []).map(rebased),
})

/** The same machine after a reboot that numbered the buses differently: the same key. */
export const oculinkOtherBuses: Machine = {
  ...oculinkHandheld,
  name: 'oculink-other-bus-numbers',
  case: 32,
  origin: 'ewagner12/all-ways-egpu issues 50 and 53',
  facts: 'synthetic',
  pci: oculinkHandheld.pci.map((node) =>
    node.at === '00:03.1' ? { ...node, below: (node.below ?? []).map(rebased) } : node,
  ),
  cards: [
    amdCard('c4', 'card0'),
    { name: 'card1', pci: '26:00.0', render: 'renderD129', connectors: { 'DP-4': 'connected' } },
  ],
  expected: {
    ...oculinkHandheld.expected,
    gpus: {
      '0000:c4:00.0': amdAnswer('c4', '1002:15bf', 'card0'),
      '0000:26:00.0': {
        ...(oculinkHandheld.expected.gpus['0000:66:00.0'] as ExpectedGpu),
        displays: ['card1/DP-4'],
        link: {
          hops: ['0000:24:00.0 real 16 x4', '0000:26:00.0 internal 32 x16'],
          bottleneck: '0000:24:00.0',
          effective: 6.63,
        },
      },
    },
  },
}

/** With the owner's word for it. */
export const oculinkOverridden: Machine = {
  ...oculinkHandheld,
  name: 'oculink-by-override',
  case: undefined,
  facts: 'synthetic',
  overrides: [{ vendorId: 0x1002, deviceId: 0x7550, verdict: 'external', transport: 'oculink' }],
  expected: {
    ...oculinkHandheld.expected,
    gpus: {
      ...oculinkHandheld.expected.gpus,
      '0000:66:00.0': { ...(oculinkHandheld.expected.gpus['0000:66:00.0'] as ExpectedGpu), confidence: 'high' },
    },
    findings: [],
  },
}

const laptop3070: PciNode = bridge(
  '00:01.0',
  '8086:460d',
  [
    {
      at: '01:00.0',
      id: '10de:24dd',
      subsystem: '1043:145c',
      class: '030000',
      driver: 'nvidia',
      link: link(16, 8, 16, 16),
    },
    audio('01:00.1', '10de:228b'),
  ],
  { link: link(16, 8, 16, 8) },
)

const internal3070: ExpectedGpu = {
  key: '10de:24dd:1043:145c@01.0/00.0',
  verdict: 'internal',
  confidence: 'high',
  stage: 'ready',
  driver: 'nvidia',
  power: 'active',
  link: { hops: ['0000:01:00.0 real 16 x8'], bottleneck: '0000:01:00.0', effective: 13.27 },
}

/** A desktop card of a maker with laptops of its own: four lanes are all that shows, and they prove nothing. */
export const m2Adapter: Machine = {
  name: 'adt-link-m2-and-internal-3070',
  case: 33,
  origin: 'hertg/egpu-switcher issue 113',
  facts: 'synthetic',
  assumed: 'the tree',
  kernel: '6.2.0',
  dmi: { chassis: 10, vendor: 'ASUSTeK COMPUTER INC.' },
  pci: [
    intelGraphics('8086:46a6'),
    laptop3070,
    bridge(
      '00:06.0',
      '8086:464d',
      [
        {
          at: '02:00.0',
          id: '10de:2206',
          subsystem: '1458:403b',
          class: '030000',
          driver: 'nvidia',
          link: link(8, 4, 16, 16),
        },
      ],
      { link: link(8, 4, 16, 4) },
    ),
  ],
  cards: [intelCard],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:46a6'),
      '0000:01:00.0': internal3070,
      '0000:02:00.0': {
        key: '10de:2206:1458:403b@06.0/00.0',
        verdict: 'unknown',
        confidence: 'none',
        stage: 'ready',
        driver: 'nvidia',
        power: 'active',
        link: { hops: ['0000:02:00.0 real 8 x4'], bottleneck: '0000:02:00.0', effective: 6.63 },
      },
    },
    enclosures: {},
    findings: ['verdict-uncertain info'],
  },
}

export const m2AdapterOverridden: Machine = {
  ...m2Adapter,
  name: 'adt-link-m2-by-override',
  case: undefined,
  overrides: [
    { vendorId: 0x10de, deviceId: 0x2206, subsystemVendorId: 0x1458, subsystemDeviceId: 0x403b, verdict: 'external' },
  ],
  expected: {
    gpus: {
      ...m2Adapter.expected.gpus,
      '0000:02:00.0': {
        ...(m2Adapter.expected.gpus['0000:02:00.0'] as ExpectedGpu),
        verdict: 'external',
        confidence: 'high',
        transport: 'unknown',
      },
    },
    enclosures: {},
    findings: [],
  },
}

const armoury = 'class/firmware-attributes/asus-armoury/attributes'

/** The box's GPU is card0 and the laptop's own card1: the number of a card says nothing. */
export const xgMobile: Machine = {
  name: 'rog-ally-xg-mobile-rtx3080',
  case: 35,
  origin: 'ublue-os/bazzite issue 5860',
  facts: 'partial',
  assumed: 'buses, subsystem ids',
  kernel: '6.14.0',
  dmi: { chassis: 10, vendor: 'ASUSTeK COMPUTER INC.', product: 'ROG Ally RC71L' },
  pci: [
    bridge(
      '00:01.1',
      '1022:14ee',
      [
        {
          at: '01:00.0',
          id: '10de:249c',
          subsystem: '1043:16ee',
          class: '030000',
          driver: 'nvidia',
          link: link(16, 8, 16, 16),
          attributes: { boot_vga: '1\n' },
        },
        audio('01:00.1', '10de:228b'),
      ],
      { link: link(16, 8, 16, 8) },
    ),
    ...amdProcessor('c4', '1002:15bf', 'c6', ['1022:1668', '1022:1669']),
  ],
  thunderbolt: [usb4Domain(0, 'c6:00.5')],
  files: {
    [`${armoury}/egpu_connected/current_value`]: '1\n',
    [`${armoury}/egpu_enable/current_value`]: '1\n',
  },
  cards: [
    { name: 'card0', pci: '01:00.0', render: 'renderD129', connectors: { 'HDMI-A-1': 'connected' } },
    amdCard('c4', 'card1'),
  ],
  expected: {
    gpus: {
      '0000:c4:00.0': amdAnswer('c4', '1002:15bf', 'card1'),
      '0000:01:00.0': {
        key: '10de:249c:1043:16ee@01.1/00.0',
        verdict: 'external',
        confidence: 'high',
        transport: 'xg-mobile',
        stage: 'ready',
        driver: 'nvidia',
        enclosure: 'xg-mobile',
        power: 'active',
        displays: ['card0/HDMI-A-1'],
        link: { hops: ['0000:01:00.0 real 16 x8'], bottleneck: '0000:01:00.0', effective: 13.27 },
      },
    },
    enclosures: { 'xg-mobile': { name: 'ROG XG Mobile', port: 'xg-mobile', authorized: true } },
    findings: [],
  },
}

/** The connector is there, the box is not: the laptop's own GPU stays internal. */
export const xgMobileAbsent: Machine = {
  ...xgMobile,
  name: 'rog-flow-without-its-xg-mobile',
  case: undefined,
  facts: 'synthetic',
  files: {
    [`${armoury}/egpu_connected/current_value`]: '0\n',
    [`${armoury}/egpu_enable/current_value`]: '0\n',
  },
  expected: {
    gpus: {
      ...xgMobile.expected.gpus,
      '0000:01:00.0': {
        key: '10de:249c:1043:16ee@01.1/00.0',
        verdict: 'internal',
        confidence: 'high',
        stage: 'ready',
        driver: 'nvidia',
        power: 'active',
        displays: ['card0/HDMI-A-1'],
        link: { hops: ['0000:01:00.0 real 16 x8'], bottleneck: '0000:01:00.0', effective: 13.27 },
      },
    },
    enclosures: {},
    findings: [],
  },
}

/** Plugged in and not switched on: the laptop's own GPU is the one that works. */
export const xgMobileOff: Machine = {
  ...xgMobileAbsent,
  name: 'rog-flow-xg-mobile-switched-off',
  files: {
    [`${armoury}/egpu_connected/current_value`]: '1\n',
    [`${armoury}/egpu_enable/current_value`]: '0\n',
  },
  expected: {
    ...xgMobileAbsent.expected,
    enclosures: { 'xg-mobile': { name: 'ROG XG Mobile', port: 'xg-mobile', authorized: false } },
    findings: ['xg-mobile-disabled warning'],
  },
}

/** Part of the machine, in a base that comes off. */
export const surfaceBook: Machine = {
  name: 'surface-book-2-base-gpu',
  case: 36,
  origin: 'linux-surface issue 56; drivers/platform/surface/surface_hotplug.c',
  facts: 'synthetic',
  assumed: 'the tree',
  kernel: '6.8.0',
  dmi: { chassis: 9, vendor: 'Microsoft Corporation', product: 'Surface Book 2' },
  pci: [
    intelGraphics('8086:5917'),
    bridge(
      '00:1c.0',
      '8086:9d10',
      [{ at: '02:00.0', id: '10de:1c20', subsystem: '1414:0020', class: '030200', sleep: 'D3cold', driver: 'nvidia' }],
      { sleep: 'D3cold' },
    ),
  ],
  hotplugSlots: { 0: '02:00' },
  files: { 'bus/platform/drivers/surface_hotplug/MSHW0153:00': { to: '../../../../devices/platform/MSHW0153:00' } },
  cards: [intelCard],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:5917'),
      '0000:02:00.0': {
        key: '10de:1c20:1414:0020@1c.0/00.0',
        verdict: 'internal',
        confidence: 'high',
        stage: 'ready',
        driver: 'nvidia',
        power: 'suspended',
        link: { hops: ['0000:02:00.0 real'] },
      },
    },
    enclosures: {},
    findings: ['detachable-gpu info'],
  },
}

/** The kernel marks it removable and nothing else is known: external, over something. As QEMU with an ACPI table. */
export const removableOnly: Machine = {
  name: 'removable-without-a-controller',
  origin: 'QEMU with ExternalFacingPort and usb4-host-interface, but no host interface behind it',
  facts: 'synthetic',
  kernel: '6.12.117',
  pci: [
    bridge('00:02.0', '1b36:000c', [
      bridge('01:00.0', '104c:8232', [
        bridge('02:00.0', '104c:8233', [
          {
            at: '03:00.0',
            id: '1234:1111',
            subsystem: '1af4:1100',
            class: '038000',
            driver: 'bochs-drm',
            attributes: { removable: 'removable\n' },
          },
        ]),
      ]),
    ]),
    bridge('00:03.0', '1b36:000c', [
      { at: '04:00.0', id: '1234:1111', subsystem: '1af4:1100', class: '038000', driver: 'bochs-drm' },
    ]),
  ],
  thunderbolt: [],
  cards: [
    { name: 'card0', pci: '03:00.0', connectors: { 'Virtual-1': 'connected' } },
    { name: 'card1', pci: '04:00.0', connectors: { 'Virtual-2': 'connected' } },
  ],
  expected: {
    gpus: {
      '0000:03:00.0': {
        key: '1234:1111:1af4:1100@02.0/00.0/00.0/00.0',
        verdict: 'external',
        confidence: 'medium',
        transport: 'unknown',
        stage: 'ready',
        driver: 'bochs-drm',
        power: 'active',
        displays: ['card0/Virtual-1'],
        link: { hops: ['0000:01:00.0 real', '0000:03:00.0 real'] },
      },
      '0000:04:00.0': {
        key: '1234:1111:1af4:1100@03.0/00.0',
        verdict: 'internal',
        confidence: 'high',
        stage: 'ready',
        driver: 'bochs-drm',
        power: 'active',
        displays: ['card1/Virtual-2'],
        link: { hops: ['0000:04:00.0 real'] },
      },
    },
    enclosures: {},
    findings: ['verdict-uncertain info'],
  },
}
