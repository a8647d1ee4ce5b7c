import { EGpuMac, Events } from '../../packages/driver-macos/test/egpu-mac.ts'
import type { Figure } from '../figure.ts'

const cycles = 10_000
const warmUp = 2_000

/** Plug and unplug, each awaited as an event, while everything the native side owns is counted. */
export async function measure(): Promise<Figure[]> {
  const machine = await EGpuMac.boot({ plugged: false })
  const before = machine.mac.counts()
  const settled: number[] = []
  {
    await using driver = machine.driver({ settleMs: 50, rescanMs: 15_000 }, { pollIntervalMs: 1 })
    await using events = new Events(driver)
    await events.untilType('resync')
    for (let cycle = 0; cycle < cycles; cycle += 1) {
      machine.plug()
      await events.untilType('device-observed')
      machine.unplug({ keepProperties: cycle % 2 === 0 })
      await events.untilType('device-removed')
      // What the garbage collector has not got to yet is no growth; the least of a stretch shows what stays.
      if (cycle % 500 === 499) {
        globalThis.gc?.()
        settled.push(process.memoryUsage.rss())
      }
    }
  }
  const after = machine.mac.counts()
  const least = (samples: readonly number[]): number => Math.min(...samples)
  const early = least(settled.slice(warmUp / 500, warmUp / 500 + 4))
  const late = least(settled.slice(-4))
  const leaked = after.objects + after.handles + after.ports - before.objects - before.handles - before.ports
  const faults = after.faults - before.faults
  const against = `${cycles} plug/unplug cycles`
  return [
    {
      figure: 'objects, handles and ports left',
      value: leaked,
      unit: 'objects',
      against,
      bar: '0',
      pass: leaked === 0,
    },
    { figure: 'objects released too often', value: faults, unit: 'objects', against, bar: '0', pass: faults === 0 },
    {
      figure: 'growth of memory',
      value: (late - early) / 2 ** 20,
      unit: 'MiB',
      against: `resident memory after ${warmUp} cycles`,
      ratio: late / early,
      bar: '< 1.02 x',
      pass: late / early < 1.02,
    },
  ]
}
