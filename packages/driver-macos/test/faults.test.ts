import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { detectorRoles } from '../src/detect/roles.ts'
import { macosDriver, plistSource } from '../src/index.ts'
import type { RoleRequest } from '../src/registry/picture.ts'
import { positives } from './cases.ts'
import { EGpuMac, gpuKey } from './egpu-mac.ts'
import { FakeMac } from './fake-iokit.ts'
import { toPlist } from './registry-tree.ts'
import type { TreeNode, TreeValue } from './registry-tree.ts'

async function linkOf(machine: EGpuMac): Promise<unknown> {
  await using driver = machine.driver()
  const { devices } = await driver.list()
  const hop = devices.find((device) => device.key === gpuKey)?.link?.hops.at(-1)
  return { lanes: hop?.lanes, gtPerSecond: hop?.gtPerSecond }
}

describe('what a Mac may answer', () => {
  const unknown = { lanes: undefined, gtPerSecond: undefined }
  const answers: readonly (readonly [name: string, value: TreeValue | undefined, expected: unknown])[] = [
    ['x4 at 16 GT/s with the slot clock bit', 0x1044, { lanes: 4, gtPerSecond: 16 }],
    ['all ones, from a function that does not answer', 0xffff, unknown],
    ['an empty dictionary, from an entry being torn down', { dictionary: {} }, unknown],
    ['a link that is down', 0, unknown],
    ['a width no link has', 0x1034, { lanes: undefined, gtPerSecond: 16 }],
    ['a speed no link has', 0x104f, { lanes: 4, gtPerSecond: undefined }],
    ['text', 'x4', unknown],
    ['a boolean', true, unknown],
    ['a negative number', -1, unknown],
    ['data of the right kind', { hex: '4410' }, { lanes: 4, gtPerSecond: 16 }],
    ['data of any kind', { hex: '00'.repeat(40) }, unknown],
    ['an array', [1, 2], unknown],
    ['nothing', undefined, unknown],
  ]
  for (const [name, value, expected] of answers) {
    it(`reads a link status of ${name}`, async () => {
      const machine = await EGpuMac.boot()
      machine.mac.set(machine.gpuId, 'IOPCIExpressLinkStatus', value)
      expect(await linkOf(machine)).toEqual(expected)
    })
  }

  const keys = ['vendor-id', 'device-id', 'IOPCITunnelled', 'Tunnel Endpoint GUID', 'IOPCIExpressLinkStatus']
  const wrong: readonly TreeValue[] = ['?', true, { real: 0.5 }, [], { dictionary: { a: 1n } }, { hex: '' }, -5n]
  for (const key of [...keys, 'class-code', 'model', 'pcidebug', 'VRAM,totalMB', 'IODeviceMemory']) {
    it(`takes any type for ${key} without falling over or making something up`, async () => {
      const machine = await EGpuMac.boot()
      for (const value of wrong) {
        for (const id of [machine.gpuId, machine.tunnelId]) machine.mac.set(id, key, value)
        await using driver = machine.driver()
        for (const device of (await driver.list()).devices) {
          expect(device.gpu.vendorId === undefined || device.gpu.vendorId === 0x10de).toBe(true)
          expect(device.gpu.name).toSatisfy((text: unknown) => text === undefined || text === '?')
        }
      }
    })
  }
})

describe('every property the detector reads', () => {
  const keysOf = (requests: readonly RoleRequest[]): string[] =>
    requests.flatMap(({ keys, below }) => [...keys, ...(below === undefined ? [] : keysOf(below.roles))])
  const wrong: readonly TreeValue[] = [true, { real: 1e300 }, [[1n]], { hex: 'ff'.repeat(64) }, -(2n ** 63n)]
  const tree = (positives[0] as (typeof positives)[number]).tree()
  const has = (node: TreeNode, key: string): boolean =>
    key in node.properties || node.children.some((child) => has(child, key))
  const replace = (node: TreeNode, key: string, value: TreeValue): TreeNode => ({
    ...node,
    properties: key in node.properties ? { ...node.properties, [key]: value } : node.properties,
    children: node.children.map((child) => replace(child, key, value)),
  })

  for (const key of new Set(keysOf(detectorRoles))) {
    if (!has(tree, key)) continue
    it(`may be of any type: ${key} says the same in the kernel and in a dump, and nothing that is no number`, async () => {
      for (const value of wrong) {
        const damaged = replace(tree, key, value)
        await using live = macosDriver({ source: (await FakeMac.boot(damaged)).source() })
        await using dump = macosDriver({ source: plistSource(toPlist(damaged)) })
        const snapshot = await live.list()
        expect(snapshot).toEqual(await dump.list())
        expect(inspect(snapshot, { depth: Infinity })).not.toMatch(/\bNaN\b|Infinity|\[object/)
      }
    })
  }
})

describe('an entry that vanishes while it is read', () => {
  it('is listed whole or not at all, wherever the reading was', async () => {
    for (const keepProperties of [false, true]) {
      for (let reads = 0; reads < 40; reads += 1) {
        const machine = await EGpuMac.boot()
        const before = machine.mac.counts()
        {
          await using driver = machine.driver()
          machine.mac.vanish(machine.gpuId, reads, { keepProperties })
          const { devices } = await driver.list()
          for (const device of devices) {
            expect(device.key).toBe(gpuKey)
            expect(device.verdict?.conclusion).toBe('external')
            expect(device.gpu).toMatchObject({ vendorId: 0x10de, deviceId: 0x2684, pciClass: 0x030000 })
          }
        }
        expect(machine.mac.counts()).toEqual(before)
      }
    }
  })

  it('takes what is below it along', async () => {
    for (let reads = 0; reads < 40; reads += 1) {
      const machine = await EGpuMac.boot()
      await using driver = machine.driver()
      machine.mac.vanish(machine.tunnelId, reads)
      for (const device of (await driver.list()).devices) {
        expect(device.verdict?.conclusion).toBe('external')
        expect(device.key).toBe(gpuKey)
      }
    }
  })

  it('can be a router: the GPU is then not said to be in another box', async () => {
    for (let reads = 0; reads < 20; reads += 1) {
      const machine = await EGpuMac.boot()
      await using driver = machine.driver()
      machine.mac.vanish(machine.routerPortId, reads)
      const { devices, enclosures } = await driver.list()
      for (const { enclosureId } of devices) {
        expect(enclosureId === undefined || enclosures.some((one) => one.id === enclosureId)).toBe(true)
      }
    }
  })

  it('refused calls leave an entry out instead of half in', async () => {
    for (const call of ['IORegistryEntryGetParentEntry', 'IORegistryEntryGetRegistryEntryID', 'IOObjectGetClass']) {
      for (let count = 1; count < 60; count += 7) {
        const machine = await EGpuMac.boot()
        await using driver = machine.driver()
        machine.mac.fail(call, count)
        for (const device of (await driver.list()).devices) expect(device.verdict?.conclusion).toBe('external')
        machine.mac.fail(call, 0)
      }
    }
  })
})

describe('findings about the host', () => {
  it('tells of thermal pressure by the levels that mean it', async () => {
    const machine = await EGpuMac.boot({ plugged: false })
    const codes = async (): Promise<string[]> => {
      await using driver = machine.driver()
      return (await driver.list()).findings.map((finding) => finding.code)
    }
    for (const level of [undefined, 0, 255]) {
      machine.mac.thermal(level)
      expect(await codes()).toEqual([])
    }
    for (const level of [5, 10, 100, 110]) {
      machine.mac.thermal(level)
      expect(await codes()).toEqual(['host-thermal-pressure'])
    }
    machine.mac.thermal(undefined)
  })
})
