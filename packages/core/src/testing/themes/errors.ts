import { EGpuErrorCode } from '../../error.ts'
import { refuses } from '../refusal.ts'
import type { Theme } from '../rule.ts'

/** Nothing a driver would call a device; some break careless look-ups, paths and shell commands. */
const strangeKeys = [
  'no-such-device',
  '',
  '__proto__',
  'constructor',
  '../../etc/passwd',
  'a\0b',
  '💥',
  'x'.repeat(9999),
]

export const errorsTheme: Theme = {
  name: 'errors',
  rules: [
    {
      name: 'rejects keys it does not know with EGPU_DEVICE_NOT_FOUND in every capability',
      async check(bench) {
        const { health, safeRemoval, passthrough, runtime } = bench.driver
        const calls: Readonly<Record<string, ((key: string) => Promise<unknown>) | undefined>> = {
          'health.sample': health && ((key) => health.sample(key)),
          'safeRemoval.plan': safeRemoval && ((key) => safeRemoval.plan(key)),
          'passthrough.plan': passthrough && ((key) => passthrough.plan(key)),
          'runtime.open': runtime && ((key) => runtime.open(key)),
        }
        for (const [name, call] of Object.entries(calls)) {
          if (call === undefined) continue
          for (const key of strangeKeys) {
            const what = `${name}(${JSON.stringify(key.slice(0, 20))})`
            await bench.soon(what, refuses(what, call(key), EGpuErrorCode.DeviceNotFound))
          }
        }
      },
    },
    {
      name: 'works on after it has refused something',
      async check(bench) {
        await bench.driver.health?.sample('no-such-device').catch(() => undefined)
        await bench.driver.runtime?.open('no-such-device').catch(() => undefined)
        await bench.soon('list()', bench.driver.list())
      },
    },
  ],
}
