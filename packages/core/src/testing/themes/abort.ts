import assert from 'node:assert/strict'
import type { EGpuDriver } from '../../driver/driver.ts'
import type { Bench } from '../bench.ts'
import type { Theme } from '../rule.ts'

interface Call {
  readonly name: string
  readonly run: (signal: AbortSignal) => Promise<unknown>
}

export const abortTheme: Theme = {
  name: 'abort',
  rules: [
    {
      name: 'rejects with the very reason when the signal has aborted before',
      async check(bench) {
        for (const { name, run } of await callsOf(bench)) {
          const reason = new Error(`no ${name} today`)
          const outcome = await bench.soon(name, settle(run(AbortSignal.abort(reason))))
          assert.equal(outcome.error, reason, `${name} with an aborted signal rejects with signal.reason`)
        }
      },
    },
    {
      name: 'ends every call soon after its signal aborts, with a result or with the very reason',
      async check(bench) {
        for (const { name, run } of await callsOf(bench)) {
          const end = new AbortController()
          const reason = new Error(`enough of ${name}`)
          const call = settle(run(end.signal))
          end.abort(reason)
          const outcome = await bench.soon(`${name} after its abort`, call)
          if ('error' in outcome) assert.equal(outcome.error, reason, `${name} rejects with signal.reason`)
          else await disposeOf(outcome.value)
        }
      },
    },
    {
      name: 'works again after an abort',
      async check(bench) {
        const end = new AbortController()
        const call = settle(bench.driver.list({ signal: end.signal }))
        end.abort(new Error('enough'))
        await bench.soon('list() after its abort', call)
        await bench.soon('list()', bench.driver.list())
      },
    },
  ],
}

type Outcome = { readonly value: unknown } | { readonly error: unknown }

async function settle(
  call: Promise<unknown>,
): Promise<{ readonly value?: unknown; readonly error?: unknown } & Outcome> {
  try {
    return { value: await call }
  } catch (error) {
    return { error }
  }
}

/** Every call of this driver that changes nothing and takes a signal. */
async function callsOf(bench: Bench): Promise<readonly Call[]> {
  const { driver } = bench
  const calls: Call[] = [
    { name: 'probe()', run: (signal) => driver.probe({ signal }) },
    { name: 'list()', run: (signal) => driver.list({ signal }) },
  ]
  if (driver.runtime !== undefined) calls.push(...(await runtimeCalls(bench, driver.runtime)))
  const { devices } = await bench.soon('list()', driver.list())
  const key = devices[0]?.key
  if (key === undefined) return calls
  const { health, safeRemoval, passthrough } = driver
  if (health) calls.push({ name: 'health.sample()', run: (signal) => health.sample(key, { signal }) })
  if (safeRemoval) calls.push({ name: 'safeRemoval.plan()', run: (signal) => safeRemoval.plan(key, { signal }) })
  if (passthrough) calls.push({ name: 'passthrough.plan()', run: (signal) => passthrough.plan(key, { signal }) })
  return calls
}

async function runtimeCalls(bench: Bench, runtime: NonNullable<EGpuDriver['runtime']>): Promise<readonly Call[]> {
  const calls: Call[] = [{ name: 'runtime.targets()', run: (signal) => runtime.targets({ signal }) }]
  const [target] = await bench.soon('runtime.targets()', runtime.targets())
  if (target !== undefined) calls.push({ name: 'runtime.open()', run: (signal) => runtime.open(target.id, { signal }) })
  return calls
}

/** A target that was opened in spite of the abort. */
async function disposeOf(value: unknown): Promise<void> {
  if (typeof value === 'object' && value !== null && Symbol.asyncDispose in value) {
    await (value as AsyncDisposable)[Symbol.asyncDispose]()
  }
}
