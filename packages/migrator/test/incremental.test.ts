import type { FrozenState, StateRange } from '@egpu/core'
import { systemClock } from '@egpu/core'
import { seededRandom } from '@egpu/driver-sim'
import { Changes, CheckpointManager, memoryStore } from '@egpu/migrator'
import type { CheckpointStore } from '@egpu/migrator'
import { directoryStore } from '@egpu/migrator/node'
import { describe, expect, it } from 'vitest'
import { CrashFs } from './helpers/crash-fs.ts'
import { noise, readBack } from './helpers/states.ts'

const unit = 64
const lengths = { field: 40 * unit + 17, small: 10, empty: 0 }
type Name = keyof typeof lengths

/** State on a device that counts the bytes read from it. */
class Device {
  readonly parts: Record<Name, Uint8Array> = {
    field: noise(lengths.field, 1),
    small: noise(lengths.small, 2),
    empty: new Uint8Array(),
  }
  readBytes = 0
  progress = 0
  #changed: StateRange[] | undefined = undefined

  write(part: Name, byteOffset: number, bytes: Uint8Array): void {
    this.parts[part].set(bytes, byteOffset)
    this.#changed?.push({ part, byteOffset, byteLength: bytes.byteLength })
  }

  freeze(): FrozenState {
    const copy = structuredClone(this.parts)
    const changed = this.#changed
    this.#changed = []
    this.progress += 1
    const read = (bytes: Uint8Array): AsyncIterable<Uint8Array> => this.#read(bytes)
    return {
      progress: this.progress,
      parts: Object.entries(copy).map(([name, { byteLength }]) => ({ name, byteLength })),
      changed,
      read: (name) => read(copy[name as Name]),
      readRange: ({ part, byteOffset, byteLength }) =>
        read(copy[part as Name].subarray(byteOffset, byteOffset + byteLength)),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    }
  }

  async *#read(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.byteLength; at += 100) {
      const piece = bytes.subarray(at, at + 100)
      this.readBytes += piece.byteLength
      yield piece
    }
  }
}

async function save(manager: CheckpointManager, token: number, device: Device, changes: Changes): Promise<number> {
  const before = device.readBytes
  const frozen = device.freeze()
  const mark = changes.note(frozen)
  const record = await manager.save('job', frozen, { token, since: changes.upTo(mark) })
  changes.saved(mark, record.generation)
  const found = await readBack(await manager.open(record))
  expect(Object.keys(found)).toEqual(Object.keys(device.parts))
  for (const [name, bytes] of Object.entries(device.parts))
    expect(Buffer.compare(found[name] as Uint8Array, bytes)).toBe(0)
  return device.readBytes - before
}

const makeStore = (): CheckpointStore => directoryStore('/store', { fs: new CrashFs(), chunkBytes: unit })

describe('incremental draining', () => {
  it('reads only what changed, rounded to chunks', async () => {
    await using manager = new CheckpointManager(makeStore(), { clock: systemClock })
    const token = await manager.acquire('job')
    const device = new Device()
    const changes = new Changes()
    const all = lengths.field + lengths.small
    expect(await save(manager, token, device, changes)).toBe(all)
    expect(await save(manager, token, device, changes)).toBe(0)
    device.write('field', 5 * unit + 3, noise(1, 9))
    device.write('field', 20 * unit - 1, noise(2, 10))
    expect(await save(manager, token, device, changes)).toBe(3 * unit)
    device.write('field', 40 * unit + 2, noise(3, 11))
    expect(await save(manager, token, device, changes)).toBe(17)
    device.write('small', 0, noise(10, 12))
    expect(await save(manager, token, device, changes)).toBe(10)
  })

  it('adds up what changed over freezes that were never saved or whose save failed', async () => {
    await using manager = new CheckpointManager(makeStore(), { clock: systemClock })
    const token = await manager.acquire('job')
    const device = new Device()
    const changes = new Changes()
    await save(manager, token, device, changes)
    device.write('field', 0, noise(4, 5))
    changes.note(device.freeze())
    device.write('field', 10 * unit, noise(4, 6))
    const frozen = device.freeze()
    const mark = changes.note(frozen)
    const failing = manager.save('job', frozen, {
      token,
      since: changes.upTo(mark),
      beforeCommit: () => {
        throw new Error('no')
      },
    })
    await expect(failing).rejects.toThrow('no')
    device.write('field', 20 * unit, noise(4, 7))
    expect(await save(manager, token, device, changes)).toBe(3 * unit)
  })

  it('gives the same as draining everything, for any changes', async () => {
    await using manager = new CheckpointManager(makeStore(), { clock: systemClock })
    const token = await manager.acquire('job')
    const device = new Device()
    const changes = new Changes()
    const random = seededRandom(4)
    await save(manager, token, device, changes)
    for (let round = 0; round < 60; round += 1) {
      let dirty = 0
      for (let i = random.integer(4); i > 0; i -= 1) {
        const byteOffset = random.integer(lengths.field)
        const bytes = noise(Math.min(1 + random.integer(200), lengths.field - byteOffset), round * 10 + i)
        device.write('field', byteOffset, bytes)
        dirty += bytes.byteLength + 2 * unit
      }
      const drained = await save(manager, token, device, changes)
      expect(drained).toBeLessThanOrEqual(dirty + 8 * unit)
    }
  })
})

it('the memory store keeps what did not change once for all generations', async () => {
  await using manager = new CheckpointManager(memoryStore(), { clock: systemClock, keep: { generations: 8 } })
  const token = await manager.acquire('job')
  const device = new Device()
  device.parts.field = noise(3 * 2 ** 18 + 5, 3)
  const changes = new Changes()
  await save(manager, token, device, changes)
  device.write('field', 2 ** 18 + 1, noise(1, 8))
  expect(await save(manager, token, device, changes)).toBe(2 ** 18)
  const [newest, older] = await manager.list('job')
  const pages = async (record: typeof newest): Promise<Uint8Array[]> => {
    const found: Uint8Array[] = []
    if (record === undefined) return found
    for await (const page of (await manager.open(record)).read('field')) found.push(page)
    return found
  }
  const [now, before] = [await pages(newest), await pages(older)]
  expect(now.map((page, i) => page === before[i])).toEqual([true, false, true, true])
})
