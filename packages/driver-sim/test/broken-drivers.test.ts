import { EGpuError } from '@egpu/core'
import type { OpenTarget } from '@egpu/core'
import { EventQueue } from '@egpu/core/driver'
import type { DriverEvent, EGpuDriver } from '@egpu/core/driver'
import { driverCompliance } from '@egpu/core/testing'
import { describe, expect, it } from 'vitest'
import type { SimDriver } from '../src/index.ts'
import { collectRunner } from './collect-runner.ts'
import { simRig } from './sim-rig.ts'

type Sim = SimDriver

/** One mistake per entry, and the one rule that has to find it. */
const mistakes: readonly { theme: string; rule: string; mistake: string; make: (sim: Sim) => EGpuDriver }[] = [
  {
    theme: 'capabilities',
    rule: 'has the methods of a capability exactly when it declares the capability',
    mistake: 'declares passthrough and has none',
    make: (sim) => ({ ...sim, capabilities: { ...sim.capabilities, passthrough: true } }),
  },
  {
    theme: 'capabilities',
    rule: 'has the methods of a capability exactly when it declares the capability',
    mistake: 'has health and does not declare it',
    make: (sim) => ({ ...sim, capabilities: { ...sim.capabilities, health: false } }),
  },
  {
    theme: 'probe',
    rule: 'says in a sentence why it cannot work, instead of rejecting',
    mistake: 'rejects where it cannot work',
    make: (sim) => sim,
  },
  {
    theme: 'list',
    rule: 'gives a snapshot that callers cannot use to change what others see',
    mistake: 'hands out its own objects',
    make: (sim) => {
      let own: Awaited<ReturnType<Sim['list']>> | undefined
      const list: Sim['list'] = async (options) => {
        const now = await sim.list(options)
        const same = now.devices.map((device) => device.key).join() === own?.devices.map((each) => each.key).join()
        if (own === undefined || !same) own = structuredClone(now)
        return { ...own, devices: [...own.devices] }
      }
      return { ...sim, list }
    },
  },
  {
    theme: 'identity',
    rule: 'never uses a bus number or an index alone as key',
    mistake: 'counts its devices',
    make: (sim) => renaming(sim, (key) => (key === 'soldered' ? 'card0' : key)),
  },
  {
    theme: 'identity',
    rule: 'leaves unknown properties undefined: never an empty string, NaN, null or "unknown"',
    mistake: 'says "unknown"',
    make: (sim) => ({
      ...sim,
      list: async (options) => {
        const all = await sim.list(options)
        return { ...all, devices: all.devices.map((device) => ({ ...device, kernelDriver: 'unknown' })) }
      },
    }),
  },
  {
    theme: 'watch',
    rule: 'does not lose a device that goes during the first look',
    mistake: 'looks first and subscribes then',
    make: (sim) => ({ ...sim, watch: ({ signal }) => looksFirst(sim, signal) }),
  },
  {
    theme: 'watch',
    rule: 'tells of a departure and of the return, however close they follow',
    mistake: 'merges a departure with the return that follows',
    make: (sim) => ({ ...sim, watch: ({ signal }) => debounced(sim, signal) }),
  },
  {
    theme: 'watch',
    rule: 'begins with a resync that says what list() says',
    mistake: 'watches another stage than it lists',
    make: (sim) => ({
      ...sim,
      list: async (options) => {
        const all = await sim.list(options)
        return { ...all, devices: all.devices.map((device) => ({ ...device, stage: 'present' as const })) }
      },
    }),
  },
  {
    theme: 'watch',
    rule: 'calls no departure graceful when the cable was pulled',
    mistake: 'calls every departure graceful',
    make: (sim) => ({ ...sim, watch: ({ signal }) => polite(sim, signal) }),
  },
  {
    theme: 'capabilities',
    rule: 'gives verdicts that can be: sure by 0 to 1, with their evidence, external ones with a transport',
    mistake: 'is sure in percent',
    make: (sim) => ({
      ...sim,
      list: async (options) => {
        const all = await sim.list(options)
        const inPercent = ({ verdict, ...device }: (typeof all.devices)[number]): (typeof all.devices)[number] =>
          verdict === undefined ? device : { ...device, verdict: { ...verdict, confidence: verdict.confidence * 100 } }
        return { ...all, devices: all.devices.map(inPercent) }
      },
    }),
  },
  {
    theme: 'abort',
    rule: 'rejects with the very reason when the signal has aborted before',
    mistake: 'wraps the abort reason',
    make: (sim) => ({
      ...sim,
      list: (options) =>
        sim.list(options).catch((error: unknown) => {
          throw EGpuError.is(error) ? error : new Error('aborted', { cause: error })
        }),
    }),
  },
  {
    theme: 'errors',
    rule: 'rejects keys it does not know with EGPU_DEVICE_NOT_FOUND in every capability',
    mistake: 'throws a bare Error for an unknown key',
    make: (sim) => ({
      ...sim,
      safeRemoval: {
        ...sim.safeRemoval,
        plan: (key, options) =>
          sim.safeRemoval.plan(key, options).catch((error: unknown) => {
            throw EGpuError.is(error, 'EGPU_DEVICE_NOT_FOUND') ? new Error('no such device') : error
          }),
      },
    }),
  },
  {
    theme: 'health',
    rule: 'reads every live device: numbers that can be, and nothing made up',
    mistake: 'gives NaN for what it could not read',
    make: (sim) => ({
      ...sim,
      health: {
        sample: async (key, options) => ({ ...(await sim.health.sample(key, options)), powerWatts: Number.NaN }),
      },
    }),
  },
  {
    theme: 'runtime loss',
    rule: 'tells of the loss of an idle target',
    mistake: 'never tells of a loss',
    make: (sim) => ({
      ...sim,
      runtime: {
        ...sim.runtime,
        open: async (id, options) => deaf(await sim.runtime.open(id, options)),
      },
    }),
  },
  {
    theme: 'safe removal',
    rule: 'refuses while somebody holds the device, names the holder and leaves everything as it was',
    mistake: 'believes the holders of an old plan',
    make: (sim) => ({
      ...sim,
      safeRemoval: {
        ...sim.safeRemoval,
        run: async (plan, options) => {
          options?.signal?.throwIfAborted()
          if (plan.holders.length === 0) sim.machine.enclosure('box').deauthorize()
          return sim.safeRemoval.run(plan, options)
        },
      },
    }),
  },
  {
    theme: 'dispose',
    rule: 'ends watches that wait, without throwing',
    mistake: 'leaves its watches open',
    make: (sim) => {
      let closed = false
      const watch: Sim['watch'] = (options) => {
        const events = sim.watch(options)[Symbol.asyncIterator]()
        const never = new Promise<never>(() => undefined)
        const next = async (): Promise<IteratorResult<DriverEvent>> => {
          const result = await events.next()
          return result.done === true && closed && !options.signal?.aborted ? never : result
        }
        return { [Symbol.asyncIterator]: () => ({ next, return: () => events.return?.() ?? never }) }
      }
      const close = (): Promise<void> => {
        closed = true
        return sim.close()
      }
      return { ...sim, watch, close, [Symbol.asyncDispose]: close }
    },
  },
]

describe('the suite', () => {
  it('passes the unbroken driver, with nothing skipped', async () => {
    const { runner, verdicts } = collectRunner()
    driverCompliance(runner, () => simRig())
    expect((await verdicts()).filter((verdict) => verdict.outcome !== 'passed')).toEqual([])
  })

  for (const { theme, rule, mistake, make } of mistakes) {
    it(`finds a driver that ${mistake}, under ${theme} alone`, async () => {
      const { runner, verdicts } = collectRunner()
      const rig = (): ReturnType<typeof simRig> => {
        const whole = simRig(make)
        return theme === 'probe' ? { ...whole, unusable: rejectingProbe(whole.driver) } : whole
      }
      driverCompliance(runner, rig, { patienceMs: 250 })
      const failed = (await verdicts()).filter((verdict) => verdict.outcome === 'failed')
      expect(new Set(failed.map((verdict) => verdict.path.at(-2)))).toEqual(new Set([theme]))
      expect(failed.map((verdict) => verdict.path.at(-1))).toContain(rule)
    })
  }
})

it('finds keys that change with the bus number', async () => {
  const { runner, verdicts } = collectRunner()
  const first = new Map<string, string | undefined>()
  const rename = (key: string, address: string | undefined): string => {
    if (!first.has(key)) first.set(key, address)
    return first.get(key) === address ? key : `${key}@${address}`
  }
  const rig = (): ReturnType<typeof simRig> => {
    first.clear()
    return simRig((sim) => renaming(sim, rename))
  }
  driverCompliance(runner, rig, { patienceMs: 250 })
  const failed = (await verdicts()).filter((verdict) => verdict.outcome === 'failed')
  expect(failed.map((verdict) => verdict.path.at(-1))).toContain('gives a device the same key after a re-plug')
})

function rejectingProbe(driver: EGpuDriver): EGpuDriver {
  return { ...driver, probe: () => Promise.reject(new Error('ENOENT: libcuda.so.1')) }
}

/** Renames devices everywhere they are named by key. */
function renaming(sim: Sim, rename: (key: string, address: string | undefined) => string): EGpuDriver {
  const names = new Map<string, string>()
  type Snapshot = Awaited<ReturnType<Sim['list']>>
  type Device = Snapshot['devices'][number]
  const device = (each: Device): Device => {
    const key = rename(each.key, each.identity.pciAddress)
    names.set(each.key, key)
    return { ...each, key }
  }
  const snapshot = (all: Snapshot): Snapshot => ({ ...all, devices: all.devices.map(device) })
  const own = (key: string): string => [...names].find(([, renamed]) => renamed === key)?.[0] ?? key
  return {
    ...sim,
    list: async (options) => snapshot(await sim.list(options)),
    async *watch(options) {
      for await (const event of sim.watch(options)) {
        if (event.type === 'resync') yield { ...event, snapshot: snapshot(event.snapshot) }
        else if (event.type === 'device-observed') yield { ...event, device: device(event.device) }
        else if ('key' in event) yield { ...event, key: names.get(event.key) ?? event.key }
        else yield event
      }
    },
    health: { sample: (key, options) => sim.health.sample(own(key), options) },
    safeRemoval: { ...sim.safeRemoval, plan: (key, options) => sim.safeRemoval.plan(own(key), options) },
    runtime: {
      ...sim.runtime,
      targets: async (options) => {
        snapshot(await sim.list(options))
        const targets = await sim.runtime.targets(options)
        return targets.map((target) => ({ ...target, deviceId: names.get(target.deviceId ?? '') }))
      },
    },
  }
}

async function* looksFirst(sim: Sim, signal: AbortSignal | undefined): AsyncGenerator<DriverEvent> {
  const snapshot = signal?.aborted === true ? undefined : await sim.list().catch(() => undefined)
  await new Promise((resolve) => setTimeout(resolve, 1))
  if (snapshot === undefined) return
  let first = true
  for await (const event of sim.watch({ signal })) {
    yield first ? { type: 'resync', reason: 'started', snapshot } : event
    first = false
  }
}

/** Holds departures back for a moment, and drops them when the device is there again by then. */
function debounced(sim: Sim, signal: AbortSignal | undefined): AsyncIterable<DriverEvent> {
  const queue = new EventQueue<DriverEvent>({ signal })
  const held: DriverEvent[] = []
  const isDeparture = (event: DriverEvent): boolean => event.type === 'device-lost' || event.type === 'device-removed'
  const read = async (): Promise<void> => {
    for await (const event of sim.watch({ signal })) {
      if (isDeparture(event)) {
        held.push(event)
        setTimeout(() => {
          for (const late of held.splice(0)) queue.push(late)
        }, 5)
      } else {
        if (event.type === 'device-observed') held.splice(0)
        queue.push(event)
      }
    }
    queue.end()
  }
  void read()
  return queue
}

function deaf(target: OpenTarget): OpenTarget {
  let closed = false
  const lost = new Promise<Awaited<OpenTarget['lost']>>((resolve) => {
    void target.lost.then((loss) => (closed || loss.reason === 'destroyed' ? resolve(loss) : undefined))
  })
  const close = (): Promise<void> => {
    closed = true
    return target.close()
  }
  return {
    target: target.target,
    epoch: target.epoch,
    handle: target.handle,
    lost,
    close,
    [Symbol.asyncDispose]: close,
  }
}

async function* polite(sim: Sim, signal: AbortSignal | undefined): AsyncIterableIterator<DriverEvent> {
  for await (const event of sim.watch({ signal })) {
    yield event.type === 'device-removed' ? { ...event, graceful: true } : event
  }
}
