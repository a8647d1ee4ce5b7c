import { setTimeout as sleep } from 'node:timers/promises'
import { macosDriver } from '../../packages/driver-macos/src/index.ts'
import { EGpuMac, Events } from '../../packages/driver-macos/test/egpu-mac.ts'
import { FakeMac } from '../../packages/driver-macos/test/fake-iokit.ts'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'
import { bigMac } from './big-mac.ts'

const periodMs = 250
const pushLimitMs = 10
const idleMs = 30_000
const idleLimit = 0.002

/** From the kernel's change to the driver's event, with the defaults; and what waiting for it costs. */
export async function measure(): Promise<Figure[]> {
  const polled = await latencies('poll', 60)
  const pushed = await latencies('push', 200)
  const bareTimer = await idleShare(async (signal) => {
    while (!signal.aborted) await sleep(periodMs)
  })
  const watching = await idleShare(watchBigMac)
  const slowest = percentile(polled, 1)
  const typical = percentile(pushed, 0.5)
  return [
    {
      figure: 'event, polling, slowest',
      value: slowest,
      unit: 'ms',
      against: `one poll period, ${periodMs} ms`,
      ratio: slowest / periodMs,
      bar: '<= 1 period',
      pass: slowest <= periodMs,
    },
    {
      figure: 'event, pushed, p50',
      value: typical,
      unit: 'ms',
      against: `limit ${pushLimitMs} ms`,
      ratio: typical / pushLimitMs,
      bar: `<= ${pushLimitMs} ms`,
      pass: typical <= pushLimitMs,
    },
    {
      figure: 'share of a core while watching 5,000 entries with the defaults',
      value: watching * 100,
      unit: '%',
      against: 'limit 0.2 %',
      ratio: watching / idleLimit,
      bar: '< 0.2 %',
      pass: watching < idleLimit,
    },
    {
      figure: 'share of a core over a bare timer of the same period',
      value: watching * 100,
      unit: '%',
      against: 'setTimeout every 250 ms',
      ratio: watching / bareTimer,
    },
  ]
}

/** Plugs and pulls at moments that have nothing to do with the period. */
async function latencies(mode: 'poll' | 'push', changes: number): Promise<number[]> {
  const machine = await EGpuMac.boot({ plugged: false })
  await using driver = machine.driver({ settleMs: 200, rescanMs: 10_000 }, { mode, pollIntervalMs: undefined })
  await using events = new Events(driver)
  await events.untilType('resync')
  const samples: number[] = []
  for (let change = 0; change < changes; change += 1) {
    await sleep(mode === 'poll' ? 20 + ((change * 97) % periodMs) : 5)
    const start = performance.now()
    const isPlug = change % 2 === 0
    if (isPlug) machine.plug()
    else machine.unplug()
    const arrivedAt = await events.arrival(isPlug ? 'device-observed' : 'device-removed')
    samples.push(arrivedAt - start)
  }
  return samples
}

async function watchBigMac(signal: AbortSignal): Promise<void> {
  const mac = await FakeMac.boot(bigMac(5_000))
  await using driver = macosDriver({ source: mac.source({ pollIntervalMs: undefined }) })
  for await (const _event of driver.watch({ signal })) continue
}

/** CPU time over wall time while `work` waits. */
async function idleShare(work: (signal: AbortSignal) => Promise<void>): Promise<number> {
  const end = new AbortController()
  const working = work(end.signal)
  await sleep(3_000)
  const before = process.cpuUsage()
  const start = performance.now()
  await sleep(idleMs)
  const { user, system } = process.cpuUsage(before)
  const share = (user + system) / 1000 / (performance.now() - start)
  end.abort()
  await working
  return share
}
