import { describe, expect, it } from 'vitest'
import { readTopology } from '../../src/topology/read-topology.ts'
import type { Topology } from '../../src/topology/types.ts'
import { treeOf } from '../machines/build.ts'
import { machineNamed, machines } from '../machines/index.ts'
import { memorySysfs } from '../machines/tree.ts'
import type { Entry } from '../machines/tree.ts'

function topologyOf(name: string, more: Readonly<Record<string, Entry>> = {}): Promise<Topology> {
  return readTopology(memorySysfs(new Map([...treeOf(machineNamed(name)), ...Object.entries(more)])))
}

describe('readTopology', () => {
  it('knows where a function hangs, and who is beside it', async () => {
    const { pci } = await topologyOf('thinkpad-t480-gtx1060-vfio')
    expect(pci.get('0000:09:00.0')?.parents).toEqual([
      '0000:00:1d.0',
      '0000:04:00.0',
      '0000:05:01.0',
      '0000:07:00.0',
      '0000:08:01.0',
    ])
    expect(pci.get('0000:06:00.0')).toMatchObject({ vendorId: 0x8086, deviceId: 0x15bf, pciClass: 0x088000 })
  })

  it('reads a function through its single attributes where `uevent` cannot be read', async () => {
    const path = 'devices/pci0000:00/0000:00:02.0'
    const { pci } = await topologyOf('aorus-healthy-unbound', { [`${path}/uevent`]: '' })
    expect(pci.get('0000:00:02.0')).toMatchObject({ vendorId: 0x8086, deviceId: 0x7d51, pciClass: 0x030000 })
  })

  it('puts domains, routers, retimers and ports in their places', async () => {
    const { thunderbolt } = await topologyOf('aorus-healthy-unbound')
    expect(thunderbolt.domains).toEqual([
      expect.objectContaining({
        name: 'domain0',
        hostInterface: '0000:00:0d.2',
        security: 'user',
        iommuDmaProtection: false,
      }),
      expect.objectContaining({ name: 'domain1', hostInterface: '0000:00:0d.3' }),
    ])
    expect(thunderbolt.routers.map(({ name, isHost }) => [name, isHost])).toEqual([
      ['0-0', true],
      ['0-1', false],
      ['1-0', true],
    ])
    expect(thunderbolt.routers[1]).toMatchObject({
      vendorId: 0xed,
      deviceId: 0x41b6,
      generation: 4,
      receive: { gbps: 20, lanes: 2 },
      authorized: 1,
      boot: false,
      firmwareVersion: '62.2',
      usb4Version: '2.0',
      usb4Type: 'hub',
      parent: '0-0',
    })
    expect(thunderbolt.retimers).toEqual([
      { name: '0-0:1.1', router: '0-0', port: 1, vendorId: 0x8087, deviceId: 0xd9c },
    ])
    expect(thunderbolt.ports).toContainEqual({ router: '0-0', port: 1, link: 'usb4', typecPort: undefined })
  })

  it('keeps another computer apart from boxes, and cleans its name', async () => {
    const { thunderbolt } = await topologyOf('another-computer-on-the-cable')
    expect(thunderbolt.peers).toEqual([
      { name: '0-1', domain: 0, uniqueId: 'aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee', hostName: 'evil]0;owned[31mhost' },
    ])
    expect(thunderbolt.routers.every(({ isHost }) => isHost)).toBe(true)
  })

  it('tells a peer by its attributes where there is no device type', async () => {
    const path = 'devices/pci0000:00/0000:00:08.3/0000:c4:00.5/domain0/0-0/0-1/uevent'
    const { thunderbolt } = await topologyOf('another-computer-on-the-cable', { [path]: '' })
    expect(thunderbolt.peers).toHaveLength(1)
  })

  it('finds display cards, and those that are no PCI device', async () => {
    const { drmCards } = await topologyOf('displaylink-and-vkms-cards')
    expect(drmCards.map(({ name, pciAddress }) => [name, pciAddress])).toEqual([
      ['card0', '0000:00:02.0'],
      ['card1', undefined],
      ['card2', undefined],
    ])
    expect(drmCards[0]).toMatchObject({
      renderNode: 'renderD128',
      connectors: [{ name: 'eDP-1', status: 'connected' }],
    })
  })

  it('reads connectors, power delivery, firmware and sensors', async () => {
    const charging = await topologyOf('box-that-charges-the-laptop', {
      'class/hwmon/hwmon3': {
        to: '../../devices/pci0000:00/0000:00:07.0/0000:02:00.0/0000:03:00.0/0000:04:00.0/hwmon/hwmon3',
      },
    })
    expect(charging.typecPorts).toEqual([
      {
        name: 'port0',
        dataRole: 'host',
        powerRole: 'sink',
        powerOperationMode: 'usb_power_delivery',
        partner: { alternateModes: [{ svid: 0x8087, active: true }], sourceWatts: 100 },
      },
    ])
    expect(charging.hwmon.get('0000:04:00.0')).toEqual(['class/hwmon/hwmon3'])
    const { machine } = await topologyOf('rog-ally-xg-mobile-rtx3080')
    expect(machine).toMatchObject({
      chassisType: 10,
      product: 'ROG Ally RC71L',
      xgMobile: { connected: true, enabled: true },
    })
  })

  it('lets others run while it reads, and stops between two turns when told to', async () => {
    const controller = new AbortController()
    const reason = new Error('enough')
    const slow = memorySysfs(treeOf(machineNamed('amd-igpu-class-0380-rx7600m-xt')), () => {
      const until = performance.now() + 5
      while (performance.now() < until);
    })
    const reading = readTopology(slow, { signal: controller.signal })
    setImmediate(() => controller.abort(reason))
    await expect(reading).rejects.toBe(reason)
  })

  it('explains every verdict by evidence that lies in the tree', async () => {
    const { surveyOf } = await import('../../src/survey.ts')
    for (const machine of machines) {
      const tree = treeOf(machine)
      const { gpus } = surveyOf(await readTopology(memorySysfs(tree)), { overrides: machine.overrides })
      const paths = [...tree.keys()]
      for (const { verdict } of gpus) {
        const { conclusion } = verdict
        const supporting = verdict.evidence.filter(({ points }) => points === conclusion)
        expect(conclusion === 'unknown' || supporting.length > 0).toBe(true)
        const sources = verdict.evidence
          .map(({ source }) => source ?? '')
          .filter((source) => source.startsWith('devices/'))
        expect(sources.filter((source) => !paths.some((path) => path.startsWith(source)))).toEqual([])
      }
    }
  })
})
