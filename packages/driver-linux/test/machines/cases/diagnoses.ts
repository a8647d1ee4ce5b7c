import type { ExpectedFinding, Machine, RouterNode } from '../machine.ts'
import { boxBelow } from './intel.ts'
import {
  box,
  bridge,
  fiction,
  intelAnswer,
  intelCard,
  intelGraphics,
  noLink,
  other,
  usb4Domain,
  uuid,
} from '../parts.ts'

/** One port, one box, one thing wrong. */

const razer: Partial<RouterNode> = {
  vendorName: 'Razer',
  deviceName: 'Core X V2',
  usb4: { version: '2.0', type: 'hub' },
}

interface Trouble extends Pick<Machine, 'name' | 'origin'> {
  readonly router?: Partial<RouterNode> | undefined
  readonly domain?: Parameters<typeof usb4Domain>[3]
  readonly typec?: Machine['typec']
  readonly below?: Machine['pci']
  readonly nhi?: string
  readonly kernel?: string
  readonly findings: readonly ExpectedFinding[]
}

function trouble({ name, origin, router, domain, typec, below = [], kernel = '6.19.0', findings }: Trouble): Machine {
  const authorized = router !== undefined && 'authorized' in router ? router.authorized : '1'
  return {
    name,
    origin,
    facts: 'synthetic',
    kernel,
    externalFacing: ['00:07.0'],
    usb4Links: [['00:07.0', '00:0d.2']],
    pci: [
      intelGraphics('8086:7d55'),
      bridge('00:07.0', '8086:7ec4', below, { link: below.length === 0 ? noLink : fiction }),
      other('00:0d.2', '8086:7ec2', '0c0340', 'thunderbolt'),
    ],
    thunderbolt: [
      usb4Domain(0, '00:0d.2', router === undefined ? [] : [box('0-1', 80, { ...razer, ...router })], domain),
    ],
    typec,
    cards: [intelCard],
    expected: {
      gpus: { '0000:00:02.0': intelAnswer('8086:7d55') },
      enclosures:
        router === undefined
          ? {}
          : {
              [uuid(80)]: {
                name: 'Core X V2',
                port: 'domain0/port1',
                sticker: 'thunderbolt-4',
                ...(authorized === undefined ? {} : { authorized: authorized !== '0' }),
              },
            },
      findings,
    },
  }
}

export const nopcie: Machine = trouble({
  name: 'security-level-nopcie',
  origin: 'Documentation/admin-guide/thunderbolt.rst',
  router: { authorized: undefined },
  domain: { security: 'nopcie' },
  findings: ['security-nopcie error'],
})

export const dponly: Machine = trouble({
  name: 'security-level-dponly',
  origin: 'Documentation/admin-guide/thunderbolt.rst; gicmo/bolt issue 49',
  router: {},
  domain: { security: 'dponly' },
  findings: ['security-dponly error'],
})

export const usbonly: Machine = trouble({
  name: 'security-level-usbonly',
  origin: 'Documentation/admin-guide/thunderbolt.rst',
  router: { authorized: '0' },
  domain: { security: 'usbonly' },
  findings: ['security-usbonly error'],
})

export const noTunnel: Machine = trouble({
  name: 'known-box-without-tunnel',
  origin: 'recipe',
  router: {},
  findings: ['no-pcie-tunnel error'],
})

export const emptySlot: Machine = trouble({
  name: 'known-box-with-an-empty-slot',
  origin: 'recipe',
  router: {},
  below: [bridge('02:00.0', '8086:5786', [bridge('03:00.0', '8086:5786', [], { link: noLink })], { link: fiction })],
  findings: ['enclosure-without-gpu warning'],
})

export const usbOnlyCable: Machine = trouble({
  name: 'usb-only-cable',
  origin: 'recipe: a partner with the Thunderbolt mode, not active, and no router',
  domain: { ports: { 1: { link: 'none', typec: 'port0' } } },
  typec: [
    {
      name: 'port0',
      partner: {
        modes: [
          { svid: '8087', active: 'no' },
          { svid: 'ff01', active: 'no' },
        ],
      },
    },
  ],
  findings: ['usb-only-connection error'],
})

/** The mode is entered and the router is on its way: not yet a fault. */
export const comingUp: Machine = trouble({
  name: 'thunderbolt-mode-active-router-not-there-yet',
  origin: 'recipe',
  domain: { ports: { 1: { link: 'none', typec: 'port0' } } },
  typec: [{ name: 'port0', partner: { modes: [{ svid: '8087', active: 'yes' }] } }],
  findings: [],
})

/** A monitor with DisplayPort mode is no Thunderbolt device. */
export const displayOnly: Machine = trouble({
  name: 'monitor-on-a-type-c-port',
  origin: 'recipe',
  domain: { ports: { 1: { link: 'none', typec: 'port0' } } },
  typec: [{ name: 'port0', partner: { modes: [{ svid: 'ff01', active: 'yes' }] } }],
  findings: [],
})

export const oldKernel: Machine = trouble({
  name: 'usb4-host-on-linux-5-4',
  origin: 'kernel 5.6 release notes: USB4',
  kernel: '5.4.0-150-generic',
  findings: ['kernel-too-old warning'],
})

/** The controller is there, its driver is not. */
export const noModule: Machine = {
  ...trouble({ name: 'thunderbolt-module-missing', origin: 'recipe', findings: ['thunderbolt-driver-missing error'] }),
  thunderbolt: 'no-module',
}

/** It charges the laptop with 100 W over the cable. */
export const charging: Machine = {
  ...trouble({ name: 'box-that-charges-the-laptop', origin: 'recipe', findings: [] }),
  pci: [
    intelGraphics('8086:7d55'),
    bridge(
      '00:07.0',
      '8086:7ec4',
      [boxBelow(2, '8086:5786', { id: '10de:2c05', subsystem: '1043:8a00', driver: 'nouveau' })],
      {
        link: fiction,
      },
    ),
    other('00:0d.2', '8086:7ec2', '0c0340', 'thunderbolt'),
  ],
  thunderbolt: [usb4Domain(0, '00:0d.2', [box('0-1', 81, razer)], { ports: { 1: { link: 'usb4', typec: 'port0' } } })],
  typec: [{ name: 'port0', partner: { modes: [{ svid: '8087', active: 'yes' }], source: ['20000mV', '5000mA'] } }],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:7d55'),
      '0000:04:00.0': {
        key: `${uuid(81)}/0`,
        verdict: 'external',
        confidence: 'high',
        transport: 'usb4',
        // nouveau is bound but made no card: not usable yet.
        stage: 'present',
        driver: 'nouveau',
        enclosure: uuid(81),
        port: 'domain0/port1',
        speed: 'thunderbolt-4',
        power: 'active',
        link: {
          sticker: 'thunderbolt-4',
          trained: '2x20/2x20',
          hops: ['0000:02:00.0 virtual', '0000:04:00.0 real 8 x4'],
          bottleneck: 'cable',
          effective: 3.79,
        },
      },
    },
    enclosures: {
      [uuid(81)]: {
        name: 'Core X V2',
        port: 'domain0/port1',
        authorized: true,
        sticker: 'thunderbolt-4',
        powerDeliveryWatts: 100,
      },
    },
    findings: ['no-drm-card warning'],
  },
}
