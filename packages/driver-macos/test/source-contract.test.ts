import { EGpuErrorCode } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { plistSource } from '../src/index.ts'
import type { Registry, RegistryEntry, RegistrySource } from '../src/index.ts'
import { FakeMac } from './fake-iokit.ts'
import { appleMac, entry, findEntry } from './mac.ts'
import { toPlist } from './registry-tree.ts'
import type { TreeNode } from './registry-tree.ts'

const values = {
  uid: -9185171858847104256n,
  huge: 2n ** 63n - 1n,
  real: { real: 0.25 },
  text: 'Größe 🖥 <&>',
  empty: '',
  yes: true,
  no: false,
  data: { hex: 'de100000' },
  nothing: { hex: '' },
  list: ['a', 1n, [true]],
  dictionary: { dictionary: { 'Temperature(C)': 41n, nested: { dictionary: { deep: 1n } } } },
  long: 'x'.repeat(5000),
} as const

const machine = (): TreeNode =>
  appleMac({
    type: 7,
    boxes: [{ className: 'IOThunderboltSwitchIntelJHL9480', uid: 1n, model: 'A', speed: 2, width: 2 }],
    others: [entry('AppleARMIODevice', 'values', '1,2', values)],
  })

type MakeSource = (tree: TreeNode) => Promise<RegistrySource>
const sources: Readonly<Record<string, MakeSource>> = {
  'IOKit through koffi': async (tree) => (await FakeMac.boot(tree)).source(),
  'an ioreg dump': async (tree) => plistSource(toPlist(tree)),
}

function ids(entries: readonly RegistryEntry[]): bigint[] {
  const all = entries.map((one) => one.id ?? 0n)
  for (const one of entries) one[Symbol.dispose]()
  return all.sort(ascending)
}

function ascending(a: bigint, b: bigint): number {
  return a < b ? -1 : 1
}

function only(registry: Registry, className: string): RegistryEntry {
  const [first, ...others] = registry.matching(className)
  for (const other of others) other[Symbol.dispose]()
  if (first === undefined) throw new Error(`no ${className}`)
  return first
}

for (const [name, make] of Object.entries(sources)) {
  describe(`a registry from ${name}`, () => {
    it('is usable', async () => {
      await using source = await make(machine())
      expect(await source.probe()).toEqual({ usable: true })
    })

    it('finds entries by base class, whatever chip is in their name', async () => {
      const tree = machine()
      await using source = await make(tree)
      const registry = await source.open()
      const host = findEntry(tree, (node) => node.className === 'IOThunderboltSwitchType7')
      const box = findEntry(tree, (node) => node.className === 'IOThunderboltSwitchIntelJHL9480')
      expect(ids(registry.matching('IOThunderboltSwitch'))).toEqual([host.id, box.id].sort(ascending))
      expect(ids(registry.matching('IOPCIBridge'))).toHaveLength(2)
      expect(ids(registry.matching('NoSuchClass'))).toEqual([])
    })

    it('tells class, name, location, parent and children', async () => {
      const tree = machine()
      await using source = await make(tree)
      const port = findEntry(tree, (node) => node.className === 'IOThunderboltPort' && node.location === '7')
      const found = (await source.open()).entry(port.id) as RegistryEntry
      const parent = found.parent() as RegistryEntry
      expect([found.className, found.name, found.location]).toEqual(['IOThunderboltPort', 'IOThunderboltPort', '7'])
      expect([parent.className, parent.location]).toEqual(['IOThunderboltControllerType7', undefined])
      expect(found.conformsTo('IOThunderboltPort')).toBe(true)
      expect(found.conformsTo('IOPCIDevice')).toBe(false)
      expect(ids(found.children())).toEqual(port.children.map((child) => child.id))
      parent[Symbol.dispose]()
      found[Symbol.dispose]()
    })

    it('finds an entry by id, and none by a wrong one', async () => {
      const tree = machine()
      await using source = await make(tree)
      const registry = await source.open()
      const found = registry.entry(tree.id)
      expect(found?.id).toBe(tree.id)
      expect(found?.parent()).toBeUndefined()
      found?.[Symbol.dispose]()
      expect(registry.entry(0xdeadn)).toBeUndefined()
    })

    it('keeps every kind of value, 64-bit integers to the last bit', async () => {
      const tree = machine()
      await using source = await make(tree)
      const found = (await source.open()).entry(findEntry(tree, (node) => node.name === 'values').id) as RegistryEntry
      const read = Object.fromEntries(Object.keys(values).map((key) => [key, found.property(key)]))
      expect(read).toEqual({
        ...values,
        real: 0.25,
        data: new Uint8Array([0xde, 0x10, 0, 0]),
        nothing: new Uint8Array(),
        dictionary: { 'Temperature(C)': 41n, nested: { deep: 1n } },
      })
      expect(BigInt.asUintN(64, read['uid'] as bigint).toString(16)).toBe('8087b6dc08810300')
      expect(found.property('absent')).toBeUndefined()
      expect(found.property('__proto__')).toBeUndefined()
      found[Symbol.dispose]()
    })

    it('lets an entry be disposed of twice, and the source closed twice', async () => {
      const source = await make(machine())
      const found = only(await source.open(), 'IOThunderboltController')
      found[Symbol.dispose]()
      found[Symbol.dispose]()
      await source[Symbol.asyncDispose]()
      await source[Symbol.asyncDispose]()
    })
  })
}

describe('IOKit through koffi', () => {
  it('leaves nothing behind and never releases twice', async () => {
    const mac = await FakeMac.boot(machine())
    const before = mac.counts()
    {
      await using source = mac.source()
      const registry = await source.open()
      for (const className of ['IOService', 'IOPCIDevice', 'IOThunderboltPort']) {
        for (const one of registry.matching(className)) {
          one.property('class-code')
          for (const child of one.children()) child[Symbol.dispose]()
          one.parent()?.[Symbol.dispose]()
          one[Symbol.dispose]()
        }
      }
    }
    expect(mac.counts()).toEqual(before)
  })

  it('says which call the kernel refused, and works again after that', async () => {
    const mac = await FakeMac.boot(machine())
    await using source = mac.source()
    const registry = await source.open()
    mac.fail('IOServiceGetMatchingServices', 1)
    expect(() => registry.matching('IOPCIDevice')).toThrowError(
      expect.objectContaining({
        code: EGpuErrorCode.NativeUnavailable,
        message: 'IOServiceGetMatchingServices(IOPCIDevice) failed with 0xe00002bc',
      }),
    )
    expect(ids(registry.matching('IOPCIDevice'))).toHaveLength(1)
  })

  it('lists afresh when the registry changed under the iterator', async () => {
    const mac = await FakeMac.boot(machine())
    const before = mac.counts()
    await using source = mac.source()
    const registry = await source.open()
    mac.invalidateIterators(3)
    expect(ids(registry.matching('IOThunderboltSwitch'))).toHaveLength(2)
    expect(mac.counts().handles).toBe(before.handles)
  })

  it('says why it cannot work: no library, and no macOS', async () => {
    await using absent = (await FakeMac.boot(machine())).source({
      libraries: { ioKit: '/nowhere/IOKit', coreFoundation: '/nowhere/CoreFoundation' },
    })
    const probe = await absent.probe()
    expect(probe).toMatchObject({ usable: false, reason: expect.stringContaining('/nowhere/IOKit') })
    await expect(absent.open()).rejects.toMatchObject({ code: EGpuErrorCode.NativeUnavailable })
  })
})
