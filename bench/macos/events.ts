import { fork } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { EGpuMac, Events } from '../../packages/driver-macos/test/egpu-mac.ts'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'

const periodMs = 250
const pushLimitMs = 10
// The default rescan falls into it once. Before that V8 collects what starting has left, for half a minute.
const idleMs = 60_000
const warmUpMs = 40_000
const idleLimit = 0.002

/** From the kernel's change to the driver's event, with the defaults; and what waiting for it costs. */
export async function measure(): Promise<Figure[]> {
  const polled = await latencies('poll', 60)
  const pushed = await latencies('push', 200)
  // All at once, so that each has the same neighbours.
  const [nothing, timer, watching] = await Promise.all([idleShare('nothing'), idleShare('timer'), idleShare('watch')])
  const taken = watching - nothing
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
      figure: 'share of a core that watching 5,000 entries with the defaults takes',
      value: taken * 100,
      unit: '%',
      against: `limit 0.2 %; a timer every ${periodMs} ms takes ${percent(timer - nothing)}`,
      ratio: taken / idleLimit,
      bar: '< 0.2 %',
      pass: taken < idleLimit,
    },
    {
      figure: 'what watching takes besides a process that waits for nothing',
      value: taken * 100,
      unit: '%',
      against: `a timer every ${periodMs} ms that does nothing`,
      ratio: taken / (timer - nothing),
    },
    {
      figure: 'share of a core of the whole process that watches',
      value: watching * 100,
      unit: '%',
      against: 'the same process waiting for nothing',
      ratio: watching / nothing,
    },
  ]
}

function percent(share: number): string {
  return `${(share * 100).toFixed(3)} %`
}

/** Plugs and pulls at moments that have nothing to do with the period. */
async function latencies(mode: 'poll' | 'push', changes: number): Promise<number[]> {
  const machine = await EGpuMac.boot({ plugged: false })
  await using driver = machine.driver({ settleMs: 200, rescanMs: 15_000 }, { mode, pollIntervalMs: undefined })
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

/** Share of a core that a process takes which waits in the given way. */
function idleShare(kind: 'nothing' | 'timer' | 'watch'): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = fork(new URL('./child/idle.ts', import.meta.url), [kind, String(warmUpMs), String(idleMs)], {
      execArgv: [...process.execArgv, '--expose-gc'],
    })
    child.once('message', (share) => resolve(share as number))
    child.once('error', reject)
    child.once('exit', (code) => reject(new Error(`the idle process ended with ${code} before it told anything`)))
  })
}
