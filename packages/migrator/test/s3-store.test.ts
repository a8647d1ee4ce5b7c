import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { seededRandom } from '@egpu/driver-sim'
import { s3Store } from '@egpu/migrator/node'
import { describe, expect, it } from 'vitest'
import { seal } from '../src/node/sealed.ts'
import { fakeS3 } from './helpers/fake-s3.ts'
import type { FakeS3, Fault } from './helpers/fake-s3.ts'
import { s3Suite } from './helpers/s3-suite.ts'
import { noise, readBack, write } from './helpers/states.ts'

s3Suite('a fake', () => {
  const { url, send } = fakeS3()
  return { url, send }
})

/** Pauses between two tries cost nothing; nobody waits as long for an answer here. */
const clock = { now: () => 0, sleep: (ms: number) => (ms < 10_000 ? Promise.resolve() : new Promise<void>(() => {})) }

describe('answers that get lost', () => {
  it('of any one request change nothing: what was written counts once', async () => {
    const undisturbed = await life(() => undefined)
    const calls = undisturbed.requests.length
    expect(calls).toBeGreaterThan(30)
    // Two checkpoints with a manifest and three chunks each, and the newest two heads.
    expect(undisturbed.objects.size).toBe(10)
    for (const fault of ['answer lost', 'unsent', 503, 409] as const) {
      for (let at = 1; at <= calls; at += 1) {
        let request = 0
        await life(() => ((request += 1) === at ? fault : undefined))
      }
    }
  }, 60_000)

  it('at random, with two writers that take over from each other, lose nothing that was confirmed', async () => {
    for (let seed = 1; seed <= 30; seed += 1) {
      const random = seededRandom(seed)
      const fake = fakeS3()
      fake.fault = () => (random.next() < 0.15 ? random.pick<Fault>(['answer lost', 'unsent', 503, 409]) : undefined)
      const confirmed: { writer: number; progress: number }[] = []
      const run = async (writer: number): Promise<void> => {
        await using store = s3Store({ url: fake.url, fetch: fake.send, chunkBytes: 64, clock })
        let token: number | undefined
        for (let round = 1; round <= 8; round += 1) {
          const progress = writer * 100 + round
          try {
            token ??= await store.acquire('job')
            await write(store, 'job', token, progress, { field: noise(200, 1), own: noise(10, progress) })
            confirmed.push({ writer, progress })
          } catch (error) {
            if (EGpuError.is(error, EGpuErrorCode.StaleEpoch)) token = undefined
            else if (!EGpuError.is(error, EGpuErrorCode.CheckpointFailed)) throw error
          }
        }
      }
      await Promise.all([run(1), run(2)])
      fake.fault = () => undefined
      await using store = s3Store({ url: fake.url, fetch: fake.send, clock })
      const records = await store.list('job')
      const listed = records.map(({ progress }) => progress)
      expect(new Set(listed).size).toBe(listed.length)
      for (const { progress } of confirmed) expect(listed).toContain(progress)
      for (const { generation, progress } of records) {
        expect(await readBack(await store.open('job', generation))).toEqual({
          field: noise(200, 1),
          own: noise(10, progress),
        })
      }
    }
  })
})

/** A store's life, during which something goes wrong with a request; resolves with what it was on. */
async function life(fault: (request: string) => Fault): Promise<FakeS3> {
  const fake = fakeS3(100)
  fake.fault = fault
  await using store = s3Store({ url: fake.url, fetch: fake.send, chunkBytes: 64, clock })
  const token = await store.acquire('job')
  for (let progress = 1; progress <= 3; progress += 1) {
    await write(store, 'job', token, progress, { field: noise(150, progress) })
    for (const { generation } of (await store.list('job')).slice(2)) await store.remove('job', generation)
  }
  const records = await store.list('job')
  expect(records.map(({ progress }) => progress)).toEqual([3, 2])
  for (const { generation, progress } of records) {
    expect(await readBack(await store.open('job', generation))).toEqual({ field: noise(150, progress) })
  }
  return fake
}

describe('a server', () => {
  it('that says no is not asked again and again, and what it said is told', async () => {
    const fake = fakeS3()
    fake.fault = () => 403
    await using store = s3Store({ url: fake.url, fetch: fake.send, clock })
    await expect(store.acquire('job')).rejects.toMatchObject({
      code: EGpuErrorCode.CheckpointFailed,
      message: expect.stringContaining('403'),
    })
    expect(fake.requests).toHaveLength(1)
  })

  it('that stays down ends a call with an error, and an abort ends it at once', async () => {
    const fake = fakeS3()
    fake.fault = () => 'unsent'
    await using store = s3Store({ url: fake.url, fetch: fake.send, clock })
    await expect(store.acquire('job')).rejects.toMatchObject({ code: EGpuErrorCode.CheckpointFailed })
    const signal = AbortSignal.abort(new Error('enough'))
    await expect(store.list('job', { signal })).rejects.toThrow('enough')
  })

  it('that altered, cut or lost an object is found out', async () => {
    const fake = fakeS3()
    await using store = s3Store({ url: fake.url, fetch: fake.send, chunkBytes: 64, clock })
    const token = await store.acquire('job')
    await write(store, 'job', token, 1, { field: noise(100, 1) })
    await write(store, 'job', token, 2, { field: noise(100, 2) })
    const stored = [...fake.objects].filter(([key]) => !key.includes('/heads/'))
    for (const [key, good] of stored) {
      for (const bad of [
        undefined,
        good.slice(0, -1),
        good.map((byte, i) => (i === good.byteLength >> 1 ? byte ^ 1 : byte)),
      ]) {
        if (bad === undefined) fake.objects.delete(key)
        else fake.objects.set(key, bad)
        await using later = s3Store({ url: fake.url, fetch: fake.send, clock })
        const outcomes = await Promise.allSettled(
          (await later.list('job')).map(async ({ generation }) => readBack(await later.open('job', generation))),
        )
        const codes = outcomes.map((outcome) => (outcome.status === 'rejected' ? outcome.reason.code : 'read'))
        expect(codes.filter((code) => code === 'read')).toHaveLength(1)
        expect(codes).toContain(EGpuErrorCode.CheckpointCorrupt)
        fake.objects.set(key, good)
      }
    }
  })

  it('that damaged the newest head still has the checkpoints before it, and goes on with the next', async () => {
    const fake = fakeS3()
    await using store = s3Store({ url: fake.url, fetch: fake.send, chunkBytes: 64, clock })
    const token = await store.acquire('job')
    await write(store, 'job', token, 1, { field: noise(100, 1) })
    await write(store, 'job', token, 2, { field: noise(100, 2) })
    const newest =
      [...fake.objects.keys()]
        .filter((key) => key.includes('/heads/'))
        .sort()
        .at(-1) ?? ''
    fake.objects.set(newest, new Uint8Array(5))
    expect((await store.list('job')).map(({ progress }) => progress)).toEqual([1])
    expect(await store.damaged?.('job')).toMatchObject([{ error: { code: EGpuErrorCode.CheckpointCorrupt } }])
    await expect(write(store, 'job', token, 3, {})).rejects.toMatchObject({ code: EGpuErrorCode.StaleEpoch })
    const next = await store.acquire('job')
    await write(store, 'job', next, 3, { field: noise(100, 3) })
    expect((await store.list('job')).map(({ progress }) => progress)).toEqual([3, 1])
  })

  it('with a head that somebody made is not believed', async () => {
    const fake = fakeS3()
    await using store = s3Store({ url: fake.url, fetch: fake.send, clock })
    await write(store, 'job', await store.acquire('job'), 1, { field: noise(100, 1) })
    const heads = [...fake.objects.keys()].filter((key) => key.includes('/heads/'))
    const newest = [...heads].sort().at(-1) ?? ''
    const good = JSON.parse(new TextDecoder().decode(fake.objects.get(newest)).split('\n')[1] ?? '') as {
      checkpoints: object[]
    }
    for (const change of [
      { workloadId: 'another' },
      { generation: -1 },
      { progress: '1' },
      { parts: null },
      { parts: [null] },
      { parts: [{ name: 7, byteLength: 1 }] },
      { byteLength: 0.5 },
      { savedAtMs: 'now' },
      { manifest: '../../secret' },
    ]) {
      fake.objects.set(newest, seal('egpu-head', 1, { ...good, checkpoints: [{ ...good.checkpoints[0], ...change }] }))
      expect(await store.list('job')).toEqual([])
      expect(await store.damaged?.('job')).toMatchObject([{ error: { code: EGpuErrorCode.CheckpointCorrupt } }])
    }
  })

  it('that does not list what it has is no store', async () => {
    const fake = fakeS3()
    const send: typeof fake.send = (url, init) =>
      init.method === 'GET' && url.includes('list-type')
        ? Promise.resolve(new Response('<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>'))
        : fake.send(url, init)
    await using store = s3Store({ url: fake.url, fetch: send, clock })
    await expect(store.acquire('job')).rejects.toThrow('cannot be used as a checkpoint store')
  })

  it('needs a bucket in its URL', () => {
    for (const url of ['https://s3.test', 'https://s3.test/', 'https://s3.test/bucket?x=1', 'nonsense']) {
      expect(() => s3Store({ url, fetch })).toThrow(TypeError)
    }
  })
})
