import { systemClock } from '@egpu/core'
import { CheckpointManager, memoryStore } from '@egpu/migrator'
import { directoryStore } from '@egpu/migrator/node'
import { describe, expect, it } from 'vitest'
import type { StoreCall } from '../src/node/survive/protocol.ts'
import { RemoteStore } from '../src/node/survive/remote-store.ts'
import { StoreServer } from '../src/node/survive/store-server.ts'
import { CrashFs } from './helpers/crash-fs.ts'
import { noise, readBack, stateOf } from './helpers/states.ts'

/** A child's store whose calls go through what processes can send each other. */
function connected(server: StoreServer): RemoteStore {
  const remote = new RemoteStore((message: StoreCall) => {
    const sent: StoreCall = structuredClone(message)
    void server.answer(sent).then((answer) => remote.answered(structuredClone(answer)))
  })
  return remote
}

describe('the store that a child sees', () => {
  it('takes over what did not change, as the one behind it does', async () => {
    const store = directoryStore('/store', { fs: new CrashFs(), chunkBytes: 64 })
    const manager = new CheckpointManager(connected(new StoreServer(store)), { clock: systemClock })
    const token = await manager.acquire('job')
    const field = noise(64 * 20, 1)
    const record = await manager.save('job', stateOf(1, { field }), { token })
    field.set(noise(4, 2), 64 * 7)
    let drained = 0
    const state = {
      ...stateOf(2, { field }),
      async *readRange({ byteOffset, byteLength }: { byteOffset: number; byteLength: number }) {
        yield field.subarray(byteOffset, byteOffset + byteLength)
      },
    }
    const since = { base: record.generation, changed: [{ part: 'field', byteOffset: 64 * 7, byteLength: 4 }] }
    const onProgress = ({ drainedBytes }: { drainedBytes: number }): void => void (drained = drainedBytes)
    const next = await manager.save('job', state, { token, since, onProgress })
    expect(drained).toBe(64)
    expect(await readBack(await manager.open(next))).toEqual({ field })
    await store.close()
  })

  it('of a child that was given up takes nothing more, and leaves no checkpoint begun', async () => {
    const store = memoryStore()
    let goOn: () => void = () => undefined
    let discarded = 0
    const slow = {
      ...store,
      begin: async (...args: Parameters<typeof store.begin>) => {
        await new Promise<void>((resolve) => (goOn = resolve))
        const writer = await store.begin(...args)
        return { ...writer, discard: async () => void (discarded += 1) }
      },
    }
    const server = new StoreServer(slow)
    const remote = connected(server)
    const token = await remote.acquire('job')
    const beginning = remote.begin({ workloadId: 'job', token, progress: 1, parts: [] })
    await new Promise((resolve) => setTimeout(resolve, 20))
    await server.end()
    goOn()
    await expect(beginning).rejects.toThrow('given up')
    expect(discarded).toBe(1)
    await expect(remote.list('job')).rejects.toThrow('given up')
  })
})
