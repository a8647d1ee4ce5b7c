import { EGpuErrorCode, systemClock } from '@egpu/core'
import { CheckpointManager } from '@egpu/migrator'
import { s3Store } from '@egpu/migrator/node'
import type { SendRequest } from '@egpu/migrator/node'
import { describe, expect, it } from 'vitest'
import { noise, readBack, stateOf, write } from './states.ts'

/** What any server has to give a store; `fresh` names a prefix that is empty. */
export function s3Suite(name: string, fresh: () => { readonly url: string; readonly send: SendRequest }): void {
  describe(`s3Store on ${name}`, () => {
    it('gives back exactly what was saved, also to another store later', async () => {
      const { url, send } = fresh()
      const parts = { field: noise(5_000, 1), empty: new Uint8Array(), small: noise(3, 2) }
      {
        await using store = s3Store({ url, fetch: send, chunkBytes: 1_000 })
        await write(store, 'a job/with ünusual name', await store.acquire('a job/with ünusual name'), 7, parts)
        await write(store, 'job', await store.acquire('job'), 1, parts)
      }
      await using later = s3Store({ url, fetch: send })
      expect([...(await later.workloads())].sort()).toEqual(['a job/with ünusual name', 'job'])
      const [record] = await later.list('a job/with ünusual name')
      expect(record).toMatchObject({ progress: 7, byteLength: 5_003 })
      expect(await readBack(await later.open('a job/with ünusual name', record?.generation ?? 0))).toEqual(parts)
      await expect(later.open('job', 99)).rejects.toMatchObject({ code: EGpuErrorCode.CheckpointNotFound })
      expect(await later.list('nobody')).toEqual([])
    })

    it('keeps what the manager wants kept, and no objects besides', async () => {
      const { url, send } = fresh()
      let puts = 0
      const counting: SendRequest = (address, init) => {
        if (init.method === 'PUT' && address.includes('/packs/')) puts += 1
        return send(address, init)
      }
      await using store = s3Store({ url, fetch: counting, chunkBytes: 500 })
      const manager = new CheckpointManager(store, { clock: systemClock })
      const token = await manager.acquire('job')
      const field = noise(2_000, 1)
      for (let progress = 1; progress <= 5; progress += 1) {
        field[0] = progress
        await manager.save('job', stateOf(progress, { field }), { token })
      }
      expect((await manager.list('job')).map(({ progress }) => progress)).toEqual([5, 4])
      // Four chunks once, and then the one that changed.
      expect(puts).toBe(4 + 4)
      const [record] = await manager.list('job')
      if (record === undefined) throw new Error('nothing was saved')
      expect(await readBack(await manager.open(record))).toEqual({ field })
      await manager.forget('job')
      expect(await store.workloads()).toEqual([])
    })

    it('lets exactly one of two writers on one prefix commit, whoever acquired last', async () => {
      const { url, send } = fresh()
      await using first = s3Store({ url, fetch: send })
      await using second = s3Store({ url, fetch: send })
      const old = await first.acquire('job')
      const parts = [{ name: 'part', byteLength: 3 }]
      const writer = await first.begin({ workloadId: 'job', token: old, progress: 1, parts })
      await writer.append('part', new Uint8Array(3))
      const token = await second.acquire('job')
      expect(token).toBeGreaterThan(old)
      await expect(writer.commit()).rejects.toMatchObject({ code: EGpuErrorCode.StaleEpoch })
      await writer.discard()
      await write(second, 'job', token, 2, { part: noise(3, 1) })
      await expect(write(first, 'job', old, 3, {})).rejects.toMatchObject({ code: EGpuErrorCode.StaleEpoch })
      const [record] = await second.list('job')
      await expect(first.remove('job', record?.generation ?? 0)).rejects.toMatchObject({
        code: EGpuErrorCode.StaleEpoch,
      })
      expect((await first.list('job')).map(({ progress }) => progress)).toEqual([2])
    })

    it('gives many who acquire at the same time different tokens, of which one is the last', async () => {
      const { url, send } = fresh()
      const stores = Array.from({ length: 6 }, () => s3Store({ url, fetch: send }))
      const tokens = await Promise.all(stores.map((store) => store.acquire('job')))
      expect(new Set(tokens).size).toBe(tokens.length)
      const outcomes = await Promise.allSettled(
        stores.map((store, i) => write(store, 'job', tokens[i] as number, i, { part: noise(10, i) })),
      )
      const won = outcomes.flatMap(({ status }, i) => (status === 'fulfilled' ? [i] : []))
      expect(won).toEqual([tokens.indexOf(Math.max(...tokens))])
      expect((await stores[0]?.list('job'))?.map(({ progress }) => progress)).toEqual(won)
    })
  })
}
