import { expect, test } from 'vitest'
import type { EGpuDevice } from '@egpu/core'
import { matchAdapter } from '../src/adapters/match.ts'
import { isPinHeld, observeAdapters, possibleDevices, targetOf } from '../src/adapters/observe.ts'
import type { Known } from '../src/adapters/observe.ts'
import type { AdapterSeen } from '../src/adapters/adapter-seen.ts'
import type { VulkanDevice } from '../src/adapters/vulkan-devices.ts'

const name = 'NVIDIA GeForce RTX 4090'
const request = (): Promise<undefined> => Promise.resolve(undefined)

function adapter(changes: Partial<AdapterSeen> = {}): AdapterSeen {
  const common = { vendor: 'nvidia', backend: 'vulkan', software: false, limits: {}, features: [] }
  return { key: `vulkan:${name}`, name, request, ...common, ...changes }
}

function vulkan(uuid: string, pciAddress?: string): VulkanDevice {
  return { name, vendorId: 0x10de, deviceId: 0x2684, type: 'discrete', uuid, pciAddress, memoryBytes: 2 ** 34 }
}

/** A device as the drivers that see the bus have it. */
function device(id: string, identity: EGpuDevice['identity'], gpu: EGpuDevice['gpu'] = {}): EGpuDevice {
  return { id, identity, gpu } as EGpuDevice
}

const nobody: Known = { devices: [], pinnedUuid: undefined }
const one = vulkan('aa'.repeat(16), '0000:04:00.0')
const other = vulkan('bb'.repeat(16), '0000:05:00.0')
const onBus = [
  device('first', { pciAddress: '0000:04:00.0', vendorId: 0x10de, deviceId: 0x2684 }),
  device('second', { pciAddress: '0000:05:00.0', vendorId: 0x10de, deviceId: 0x2684 }),
]

function match(seen: AdapterSeen, all: readonly AdapterSeen[], known: Known, devices: readonly EGpuDevice[]): object {
  const {
    certainty,
    confidence,
    device: found,
    candidates,
  } = matchAdapter(seen, possibleDevices(seen, all, known), devices)
  return { certainty, confidence, device: found?.id, candidates: candidates.map(({ id }) => id) }
}

test('a UUID, however it is written, or a PCI address makes it certain', () => {
  const only = adapter()
  const known = { ...nobody, devices: [one] }
  expect(match(only, [only], known, onBus)).toMatchObject({ certainty: 'certain', confidence: 1, device: 'first' })
  const uuid = 'GPU-AAAAAAAA-aaaa-aaaa-aaaa-aaaaaaaaaaaa'
  const moved = device('moved', { uuid, pciAddress: '0000:09:00.0' })
  expect(match(only, [only], known, [moved])).toMatchObject({ certainty: 'certain', device: 'moved' })
})

test('the only one of its model, or of its maker, is likely', () => {
  const only = adapter()
  const known = { ...nobody, devices: [vulkan('cc'.repeat(16))] }
  expect(match(only, [only], known, onBus.slice(1))).toMatchObject({ certainty: 'likely', confidence: 0.9 })
  // A browser knows the maker alone.
  const inBrowser = adapter({ name: 'ampere', backend: undefined })
  expect(match(inBrowser, [inBrowser], nobody, onBus.slice(0, 1))).toMatchObject({
    certainty: 'likely',
    confidence: 0.5,
    device: 'first',
  })
  expect(match(inBrowser, [inBrowser], nobody, onBus)).toEqual({
    certainty: 'ambiguous',
    confidence: 0.5,
    device: undefined,
    candidates: ['first', 'second'],
  })
})

test('one of two identical GPUs is ambiguous until this process was pinned to it', () => {
  const twins = [adapter(), adapter({ key: `vulkan:${name}#2`, request: undefined })] as const
  const known = { ...nobody, devices: [one, other] }
  const both = { certainty: 'ambiguous', confidence: 0.5, device: undefined, candidates: ['first', 'second'] }
  expect(match(twins[0], twins, known, onBus)).toEqual(both)
  // Nor does it help that only one of them is known to anybody else.
  expect(match(twins[0], twins, known, onBus.slice(0, 1))).toEqual({ ...both, candidates: ['first'] })
  expect(targetOf(twins[0], twins, isPinHeld(known))?.deviceId).toBeUndefined()
  expect(observeAdapters(twins, known).map(({ identity }) => identity.uuid)).toEqual([one.uuid, other.uuid])

  const pinned = { ...known, pinnedUuid: other.uuid }
  expect(match(twins[0], twins, pinned, onBus)).toMatchObject({ certainty: 'certain', device: 'second' })
  expect(targetOf(twins[0], twins, isPinHeld(pinned))?.deviceId).toBe(twins[0].key)
  expect(observeAdapters(twins, pinned).map(({ identity }) => identity.uuid)).toEqual([other.uuid, one.uuid])

  // The GPU of the pin has gone: the rest is as open as before.
  const stale = { ...known, pinnedUuid: 'dd'.repeat(16) }
  expect(match(twins[0], twins, stale, onBus)).toEqual(both)
  expect(targetOf(twins[0], twins, isPinHeld(stale))?.deviceId).toBeUndefined()
})

test('what runs on the CPU, and what nobody else knows, is none', () => {
  const cpu = adapter({ software: true })
  expect(match(cpu, [cpu], nobody, onBus)).toMatchObject({ certainty: 'none', confidence: 0, candidates: [] })
  const unknown = adapter({ name: 'Some GPU', vendor: 'intel' })
  expect(match(unknown, [unknown], nobody, onBus)).toMatchObject({ certainty: 'none', confidence: 0, candidates: [] })
})
