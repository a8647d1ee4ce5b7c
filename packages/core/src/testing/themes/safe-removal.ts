import assert from 'node:assert/strict'
import type { Theme } from '../rule.ts'

export const safeRemovalTheme: Theme = {
  name: 'safe removal',
  rules: [
    {
      name: 'plans without changing anything, in steps a person can read',
      async check(bench) {
        const removal = bench.capability('safeRemoval')
        const { key } = await bench.subject()
        const before = await bench.soon('list()', bench.driver.list())
        const plan = await bench.soon('safeRemoval.plan()', removal.plan(key))
        assert.equal(plan.key, key)
        assert(plan.steps.length > 0 || plan.refusals.length > 0, 'a plan has steps, or says why there are none')
        assert.equal(new Set(plan.steps.map((step) => step.id)).size, plan.steps.length, 'step ids are unique')
        for (const text of [...plan.steps.map((step) => step.title), ...plan.refusals, ...plan.notes]) {
          assert.match(text, /\S+\s+\S+/, `"${text}" is a sentence`)
        }
        const after = await bench.soon('list()', bench.driver.list())
        assert.deepEqual(structuredClone(after), structuredClone(before), 'planning changed what is listed')
      },
    },
    {
      name: 'refuses while somebody holds the device, names the holder and leaves everything as it was',
      async check(bench) {
        const removal = bench.capability('safeRemoval')
        const hold = bench.hand('hold')
        const { key, stage } = await bench.subject()
        const early = await bench.soon('safeRemoval.plan()', removal.plan(key))
        const release = await hold()
        const plan = await bench.soon('safeRemoval.plan()', removal.plan(key))
        assert(plan.holders.length > 0, 'the plan names the holder')
        // The first plan saw no holder: running it has to look again.
        for (const each of [early, plan]) {
          const outcome = await bench.soon('safeRemoval.run()', removal.run(each))
          assert(!outcome.done, 'a held device was removed')
          assert.equal(outcome.failedStep, undefined, 'no step was begun')
          assert(outcome.holders.length > 0, 'the outcome names the holder')
          assert.match(outcome.reason, /\S+\s+\S+/, 'the reason is a sentence')
        }
        assert.equal((await bench.subject()).key, key, 'the device is still there')
        assert.equal((await bench.subject()).stage, stage)
        release()
      },
    },
    {
      name: 'removes the device, tells of each step and of a graceful departure, and it can come back',
      async check(bench) {
        const removal = bench.capability('safeRemoval')
        // A rig that can bring the device back allows that it is removed for real.
        const plug = bench.hand('plug')
        const { key } = await bench.subject()
        const { events } = bench.watch()
        await events.start()
        const plan = await bench.soon('safeRemoval.plan()', removal.plan(key))
        const told: string[] = []
        const onStep = (step: { readonly id: string }, status: string): void => {
          told.push(`${step.id} ${status}`)
        }
        const outcome = await bench.soon('safeRemoval.run()', removal.run(plan, { onStep }))
        assert(outcome.done, outcome.done ? '' : `the removal failed: ${outcome.reason}`)
        assert.deepEqual(
          told,
          plan.steps.flatMap(({ id }) => [`${id} started`, `${id} done`]),
          'every step is told when it starts and when it is done',
        )
        const removed = await events.until(
          `the departure of ${key}`,
          (event) => event.type === 'device-removed' && event.key === key,
        )
        assert(removed.type === 'device-removed' && removed.graceful, 'a safe removal is graceful')
        const { devices } = await bench.soon('list()', bench.driver.list())
        assert(!devices.some((device) => device.key === key), `${key} was removed and is still listed`)
        await plug()
        await events.untilPresent(key, true)
      },
    },
    {
      name: 'stops when its signal aborts before the first step',
      async check(bench) {
        const removal = bench.capability('safeRemoval')
        const { key } = await bench.subject()
        const plan = await bench.soon('safeRemoval.plan()', removal.plan(key))
        const reason = new Error('not now')
        const run = removal.run(plan, { signal: AbortSignal.abort(reason) })
        const error: unknown = await bench.soon(
          'safeRemoval.run()',
          run.then(
            () => undefined,
            (rejection: unknown) => rejection,
          ),
        )
        assert.equal(error, reason, 'it rejects with signal.reason')
        assert.equal((await bench.subject()).key, key, 'the device is still there')
      },
    },
  ],
}
