import { setTimeout as sleep } from 'node:timers/promises'
import { macosDriver } from '../../../packages/driver-macos/src/index.ts'
import { FakeMac } from '../../../packages/driver-macos/test/fake-iokit.ts'
import { bigMac } from '../big-mac.ts'

/** Waits in a process of its own, in one of three ways, and sends the share of a core that took. */
const waits: Readonly<Record<string, (signal: AbortSignal) => Promise<void>>> = {
  nothing: async (signal) => sleep(2 ** 30, undefined, { signal }).catch(() => undefined),
  timer: async (signal) => {
    while (!signal.aborted) await sleep(250)
  },
  watch: async (signal) => {
    const mac = await FakeMac.boot(bigMac(5_000))
    await using driver = macosDriver({ source: mac.source({ pollIntervalMs: undefined }) })
    for await (const _event of driver.watch({ signal })) continue
  },
}

const [kind = '', warmUpMs, measureMs] = process.argv.slice(2)
const wait = waits[kind]
if (wait === undefined) throw new TypeError(`no way to wait is called ${kind}`)
const end = new AbortController()
const waiting = wait(end.signal)
await sleep(Number(warmUpMs))
globalThis.gc?.()
const before = process.cpuUsage()
const start = performance.now()
await sleep(Number(measureMs))
const { user, system } = process.cpuUsage(before)
const elapsedMs = performance.now() - start
end.abort()
await waiting
process.send?.((user + system) / 1000 / elapsedMs)
