import assert from 'node:assert/strict'
import { EGpuErrorCode } from '../../error.ts'
import type { HealthSample } from '../../types/health.ts'
import { refuses } from '../refusal.ts'
import type { Theme } from '../rule.ts'

export const healthTheme: Theme = {
  name: 'health',
  rules: [
    {
      name: 'reads every live device: numbers that can be, and nothing made up',
      async check(bench) {
        const health = bench.capability('health')
        const { devices } = await bench.soon('list()', bench.driver.list())
        for (const { key, stage } of devices) {
          if (stage === 'lost' || stage === 'wedged') continue
          checkSample(key, await bench.soon(`health.sample(${key})`, health.sample(key)))
        }
      },
    },
    {
      name: 'has its clock go forward between two readings',
      async check(bench) {
        const health = bench.capability('health')
        const { key } = await bench.subject()
        const first = await bench.soon('health.sample()', health.sample(key))
        const second = await bench.soon('health.sample()', health.sample(key))
        assert(second.atMs >= first.atMs, `the second reading was taken at ${second.atMs}, before ${first.atMs}`)
      },
    },
    {
      name: 'rejects for a device whose cable is out',
      async check(bench) {
        const health = bench.capability('health')
        const unplug = bench.hand('unplug')
        const { key } = await bench.subject()
        const { events } = bench.watch()
        await events.start()
        await unplug()
        if (bench.driver.capabilities.hotplug) await events.untilPresent(key, false)
        const call = health.sample(key)
        const gone = [EGpuErrorCode.DeviceNotFound, EGpuErrorCode.DeviceLost] as const
        await bench.soon('health.sample()', refuses('health.sample() of an unplugged device', call, ...gone))
      },
    },
    {
      name: 'rejects with EGPU_DEVICE_LOST for a device that is dead',
      async check(bench) {
        const health = bench.capability('health')
        const wedge = bench.hand('wedge')
        const { key } = await bench.subject()
        const { events } = bench.watch()
        await events.start()
        await wedge()
        const dead = (type: string): boolean => type === 'device-wedged' || type === 'device-lost'
        await events.until(
          `word of the death of ${key}`,
          (event) => dead(event.type) && 'key' in event && event.key === key,
        )
        const call = health.sample(key)
        await bench.soon('health.sample()', refuses('health.sample() of a dead device', call, EGpuErrorCode.DeviceLost))
      },
    },
    {
      name: 'settles every reading that is under way when the cable goes',
      async check(bench) {
        const health = bench.capability('health')
        const unplug = bench.hand('unplug')
        const { key } = await bench.subject()
        const readings = Array.from({ length: 16 }, () => health.sample(key))
        await unplug()
        const outcomes = await bench.soon('readings under way', Promise.allSettled(readings))
        for (const outcome of outcomes) if (outcome.status === 'fulfilled') checkSample(key, outcome.value)
      },
    },
  ],
}

function checkSample(key: string, sample: HealthSample): void {
  assert(Number.isFinite(sample.atMs), `${key}: atMs says when it was read`)
  for (const [name, value] of Object.entries(sample)) {
    if (value === undefined) continue
    assert(Number.isFinite(value), `${key}: ${name} is ${String(value)}; what could not be read is undefined`)
    if (!name.endsWith('Celsius')) assert((value as number) >= 0, `${key}: ${name} is ${String(value)}`)
  }
  const { memoryUsedBytes: used, memoryTotalBytes: total, linkRatio } = sample
  if (used !== undefined && total !== undefined) assert(used <= total, `${key}: ${used} of ${total} bytes are used`)
  if (linkRatio !== undefined) assert(linkRatio <= 1, `${key}: linkRatio is ${linkRatio}, more than the best`)
}
