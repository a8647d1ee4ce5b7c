import { EGpuErrorCode, systemClock } from '@egpu/core'
import type { AbortOptions, Clock, EGpuError } from '@egpu/core'
import { CheckpointManager } from '@egpu/migrator'
import { s3Store } from '@egpu/migrator/node'
import type { SendRequest } from '@egpu/migrator/node'
import { describe, expect, it } from 'vitest'
import { faultyProxy } from './faulty-proxy.ts'
import type { FaultyProxy, ProxyFault } from './faulty-proxy.ts'
import { noise, readBack, stateOf } from './states.ts'

export interface FaultSuiteOptions {
  /** The server's address. */
  readonly upstream: () => string
  /** A path in it that is empty. */
  readonly fresh: () => string
  readonly send: SendRequest
  /** One in so many requests is harmed, one after another. */
  readonly every: number
}

/** Real time, but for long waits, which end when the test says so, and pauses between tries, which are short. */
class HurriedClock implements Clock {
  #long = new Set<() => void>()

  now(): number {
    return systemClock.now()
  }

  sleep(ms: number, { signal }: AbortOptions = {}): Promise<void> {
    if (ms < 10_000) return systemClock.sleep(ms / 100, { signal })
    return new Promise((resolve, reject) => {
      this.#long.add(resolve)
      signal?.addEventListener('abort', () => {
        this.#long.delete(resolve)
        reject(signal.reason)
      })
    })
  }

  endLongWaits(): void {
    for (const end of this.#long) end()
  }
}

const faults: readonly [string, ProxyFault][] = [
  ['answers 500', { status: 500 }],
  ['answers 503 as S3 does', { status: 503, body: '<Error><Code>SlowDown</Code></Error>' }],
  ['answers 412', { status: 412, body: '<Error><Code>PreconditionFailed</Code></Error>' }],
  ['answers 404', { status: 404, body: '<Error><Code>NoSuchBucket</Code></Error>' }],
  ['answers 403', { status: 403, body: '<Error><Code>AccessDenied</Code></Error>' }],
  ['answers 400', { status: 400, body: 'nonsense'.repeat(10_000) }],
  ['answers with a page for people', { status: 200, body: '<html>Please log in</html>' }],
  ['answers with nothing', { status: 200 }],
  ['ends each connection', 'reset'],
  ['cuts each answer', 'cut'],
  ['hangs', 'hang'],
  ['hangs within an answer', 'hang within'],
]

/** Harm to answers that have a body. */
const bodyFaults: readonly [string, ProxyFault][] = [
  ['shortens', 'shortened'],
  ['alters', 'altered'],
  ['never ends', 'flood'],
]

const partsOf = (progress: number) => ({ field: noise(1_500, progress) })

/** What a server, or what stands before it, does wrong must cost no checkpoint and keep nobody waiting for ever. */
export function s3FaultSuite(name: string, { upstream, fresh, send, every }: FaultSuiteOptions): void {
  const scene = async (): Promise<{ proxy: FaultyProxy; clock: HurriedClock; manager: CheckpointManager }> => {
    const proxy = await faultyProxy(upstream())
    const clock = new HurriedClock()
    const url = `${proxy.url}${fresh()}`
    const store = s3Store({ url, fetch: send, chunkBytes: 500, clock })
    return { proxy, clock, manager: new CheckpointManager(store, { clock: systemClock }) }
  }

  /** Ends waits for answers whenever a request hangs, until the work is over. */
  async function outcomeOf<T>(work: Promise<T>, proxy: FaultyProxy, clock: HurriedClock): Promise<T | EGpuError> {
    const settled = work.then(
      (value) => value,
      (error: EGpuError) => error,
    )
    const over = settled.then(() => 'over' as const)
    while ((await Promise.race([over, proxy.hanging()])) !== 'over') clock.endLongWaits()
    return settled
  }

  describe(`s3Store before ${name}, when something on the way to it`, () => {
    it.each(faults)('%s, gives up, loses nothing, and saves again afterwards', async (_, fault) => {
      const { proxy, clock, manager } = await scene()
      await using _proxy = proxy
      const token = await manager.acquire('job')
      await manager.save('job', stateOf(1, partsOf(1)), { token })
      proxy.fault = () => fault
      for (const call of [
        () => manager.save('job', stateOf(2, partsOf(2)), { token }),
        () => manager.list('job'),
        () => manager.acquire('job'),
      ]) {
        const outcome = await outcomeOf<unknown>(call(), proxy, clock)
        expect(outcome).toMatchObject({ code: EGpuErrorCode.CheckpointFailed })
        expect((outcome as EGpuError).message.length).toBeLessThan(500)
      }
      proxy.fault = () => undefined
      const again = await manager.acquire('job')
      await manager.save('job', stateOf(3, partsOf(3)), { token: again })
      const records = await manager.list('job')
      expect(records.map(({ progress }) => progress)).toEqual([3, 1])
      for (const record of records) expect(await readBack(await manager.open(record))).toEqual(partsOf(record.progress))
    })

    it.each([...faults.filter(([, fault]) => typeof fault === 'string'), ...bodyFaults])(
      '%s once, at one request or another, is of no consequence',
      async (what, fault) => {
        const isOnBody = bodyFaults.some(([name]) => name === what)
        const { proxy, clock, manager } = await scene()
        await using _proxy = proxy
        let count = 0
        let harmedAt = -1
        proxy.fault = (method, path) => {
          // What is listed is not sealed: who alters that must be kept out by TLS.
          if (isOnBody && (method !== 'GET' || (fault === 'altered' && path.includes('list-type')))) return undefined
          return (count += 1) === harmedAt ? fault : undefined
        }
        const life = async (progress: number): Promise<void> => {
          const token = await manager.acquire('job')
          const record = await manager.save('job', stateOf(progress, partsOf(progress)), { token })
          expect(await readBack(await manager.open(record))).toEqual(partsOf(progress))
        }
        await life(1)
        await life(2)
        for (let at = 1, last = count / 2; at <= last; at += every) {
          count = 0
          harmedAt = at
          expect(await outcomeOf(life(2 + at), proxy, clock)).toBeUndefined()
        }
      },
    )

    it.each(bodyFaults)('%s each answer, is found out', async (_, fault) => {
      const { proxy, manager } = await scene()
      await using _proxy = proxy
      const token = await manager.acquire('job')
      const record = await manager.save('job', stateOf(1, partsOf(1)), { token })
      proxy.fault = (_method, path) => (path.includes('/packs/') ? fault : undefined)
      await expect(readBack(await manager.open(record))).rejects.toMatchObject({
        code: EGpuErrorCode.CheckpointCorrupt,
      })
      proxy.fault = () => undefined
      expect(await readBack(await manager.open(record))).toEqual(partsOf(1))
    })
  })
}
