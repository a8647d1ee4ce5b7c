import { readlinkSync, rmSync, symlinkSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { linuxDriver } from '../../src/index.ts'
import { buildMachine, machineNamed } from '../machines/index.ts'

describe('a pulled cable', () => {
  it('keeps the key and the box of a GPU whose router is gone and whose node is not', async () => {
    using built = buildMachine(machineNamed('aorus-healthy-unbound'))
    await using driver = linuxDriver({ sysfsRoot: built.sysfsRoot })
    const before = (await driver.list()).devices.find(({ verdict }) => verdict?.conclusion === 'external')
    unlinkSync(join(built.sysfsRoot, 'bus/thunderbolt/devices/0-1'))
    unlinkSync(join(built.sysfsRoot, 'bus/thunderbolt/devices/0-0:1.1'))
    const after = (await driver.list()).devices.find(({ key }) => key === before?.key)
    expect(before).toMatchObject({ stage: 'present', enclosureId: expect.any(String) })
    expect(after).toMatchObject({ stage: 'lost', enclosureId: before?.enclosureId, identity: before?.identity })
  })

  it('forgets the box once the node is gone, so that the next card at the address starts afresh', async () => {
    using built = buildMachine(machineNamed('aorus-healthy-unbound'))
    await using driver = linuxDriver({ sysfsRoot: built.sysfsRoot })
    await driver.list()
    const node = 'bus/pci/devices/0000:04:00.0'
    const thunderbolt = join(built.sysfsRoot, 'bus/thunderbolt/devices')
    unlinkSync(join(built.sysfsRoot, node))
    unlinkSync(join(thunderbolt, '0-1'))
    expect((await driver.list()).devices.map(({ identity }) => identity.pciAddress)).toEqual(['0000:00:02.0'])
    using fresh = buildMachine(machineNamed('aorus-router-gone-node-remains'))
    await using other = linuxDriver({ sysfsRoot: fresh.sysfsRoot })
    expect((await other.list()).devices.map(({ key }) => key)).toContain('10de:2b85:1458:41b6')
  })

  it('gives the same key on the other port, and another one to a twin', async () => {
    const keys = await Promise.all(
      ['aorus-healthy-unbound', 'aorus-port-b', 'two-boxes-on-two-ports-of-one-controller'].map(async (name) => {
        using built = buildMachine(machineNamed(name))
        await using driver = linuxDriver({ sysfsRoot: built.sysfsRoot })
        const { devices } = await driver.list()
        return devices.filter(({ verdict }) => verdict?.conclusion === 'external').map(({ key }) => key)
      }),
    )
    const [portA, portB, twins] = keys
    expect(portA).toEqual(portB)
    expect(new Set(twins).size).toBe(2)
  })

  it('does not change the key of a twin when no router tells them apart', async () => {
    using built = buildMachine(machineNamed('two-boxes-on-two-ports-of-one-controller'))
    const { sysfsRoot } = built
    rmSync(join(sysfsRoot, 'bus/thunderbolt'), { recursive: true })
    await using driver = linuxDriver({ sysfsRoot })
    const external = async (): Promise<ReadonlyMap<string | undefined, string>> => {
      const { devices } = await driver.list()
      return new Map(
        devices
          .filter(({ verdict }) => verdict?.conclusion === 'external')
          .map(({ identity, key }) => [identity.pciAddress, key]),
      )
    }
    const [first, second] = [...(await external()).keys()] as [string, string]
    const cable = join(sysfsRoot, 'bus/pci/devices', first)
    const target = readlinkSync(cable)
    const plug = (): void => symlinkSync(target, cable)
    const both = await external()
    unlinkSync(cable)
    const alone = await external()
    plug()
    const again = await external()
    expect(new Set(both.values()).size).toBe(2)
    expect(alone.get(second)).toBe(both.get(second))
    expect(again.get(second)).toBe(both.get(second))
    expect(new Set(again.values()).size).toBe(2)
  })

  it('does not give the key of a GPU that went to the other one in the box', async () => {
    using built = buildMachine(machineNamed('box-with-two-gpus-behind-its-own-switch'))
    await using driver = linuxDriver({ sysfsRoot: built.sysfsRoot })
    const keys = async (): Promise<Readonly<Record<string, string>>> => {
      const { devices } = await driver.list()
      return Object.fromEntries(devices.map(({ identity, key }) => [identity.pciAddress, key]))
    }
    const both = await keys()
    const node = join(built.sysfsRoot, 'bus/pci/devices/0000:06:00.0')
    const target = readlinkSync(node)
    unlinkSync(node)
    expect((await keys())['0000:07:00.0']).toBe(both['0000:07:00.0'])
    symlinkSync(target, node)
    expect(await keys()).toEqual(both)
  })

  it('gives each GPU in a box the same key when it is alone at the next start', async () => {
    using built = buildMachine(machineNamed('box-with-two-gpus-behind-its-own-switch'))
    const keys = async (): Promise<ReadonlyMap<string | undefined, string>> => {
      await using driver = linuxDriver({ sysfsRoot: built.sysfsRoot })
      const { devices } = await driver.list()
      return new Map(devices.map(({ identity, key }) => [identity.pciAddress, key]))
    }
    const both = await keys()
    for (const [gone, left] of [
      ['0000:06:00.0', '0000:07:00.0'],
      ['0000:07:00.0', '0000:06:00.0'],
    ] as const) {
      const node = join(built.sysfsRoot, 'bus/pci/devices', gone)
      const target = readlinkSync(node)
      unlinkSync(node)
      expect((await keys()).get(left)).toBe(both.get(left))
      symlinkSync(target, node)
    }
  })

  it('lists what is left when the whole tree vanishes while it is read', async () => {
    using built = buildMachine(machineNamed('aorus-healthy-unbound'))
    await using driver = linuxDriver({ sysfsRoot: built.sysfsRoot })
    rmSync(join(built.sysfsRoot, 'devices'), { recursive: true })
    expect((await driver.list()).devices).toEqual([])
  })
})
