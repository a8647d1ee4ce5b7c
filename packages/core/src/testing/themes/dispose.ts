import assert from 'node:assert/strict'
import { EGpuErrorCode } from '../../error.ts'
import { Skip } from '../bench.ts'
import { refuses } from '../refusal.ts'
import type { Theme } from '../rule.ts'

export const disposeTheme: Theme = {
  name: 'dispose',
  rules: [
    {
      name: 'closes twice, in parallel, and before anything was asked of it',
      async check(bench) {
        const { driver } = bench
        await bench.soon('two closes at once', Promise.all([driver.close(), driver.close()]))
        await bench.soon('the third close()', driver.close())
        await bench.soon('disposing of a closed driver', Promise.resolve(driver[Symbol.asyncDispose]()))
      },
    },
    {
      name: 'ends watches that wait, without throwing',
      async check(bench) {
        const [one, two] = [bench.watch(), bench.watch()]
        await one.events.start()
        await two.events.start()
        const waiting = one.events.next('a watch when the driver is closed')
        await bench.soon('close()', bench.driver.close())
        assert.equal((await waiting).done, true, 'a waiting read ends')
        assert.equal((await two.events.next('a watch of a closed driver')).done, true, 'the next read ends')
      },
    },
    {
      name: 'closes while calls are under way, and every one of them settles',
      async check(bench) {
        const { driver } = bench
        const calls: Promise<unknown>[] = Array.from({ length: 8 }, () => driver.list())
        if (driver.runtime !== undefined) calls.push(driver.runtime.targets())
        const settled = Promise.allSettled(calls)
        await bench.soon('close()', driver.close())
        await bench.soon('calls under way', settled)
      },
    },
    {
      name: 'closes the targets it opened',
      async check(bench) {
        const runtime = bench.capability('runtime')
        const [offer] = await bench.soon('runtime.targets()', runtime.targets())
        if (offer === undefined) throw new Skip('the machine has no compute target')
        const target = await bench.soon('runtime.open()', runtime.open(offer.id))
        await bench.soon('close()', bench.driver.close())
        assert.equal((await bench.soon('lost', target.lost)).reason, 'destroyed')
      },
    },
    {
      name: 'refuses calls after it was closed, with EGPU_CLOSED',
      async check(bench) {
        await bench.soon('close()', bench.driver.close())
        const call = bench.driver.list()
        await bench.soon('list()', refuses('list() after close()', call, EGpuErrorCode.Closed))
        assert.equal(
          (await bench.watch().events.next('a watch after close()')).done,
          true,
          'a new watch is over at once',
        )
      },
    },
  ],
}
