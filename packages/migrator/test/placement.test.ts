import { EGpuErrorCode, RuntimeKind } from '@egpu/core'
import type { Clock, ComputeTarget, WorkloadProfile } from '@egpu/core'
import { chooseTarget, cpuTarget, estimate, probeTarget, WorkloadMigrator } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'
import { RateBook } from '../src/placement/rate-book.ts'
import { bench } from './helpers/bench.ts'
import { Mixer } from './helpers/mixer.ts'
import { simHands } from './helpers/sim-hands.ts'

const gpu = (id: string, more: Partial<ComputeTarget> = {}): ComputeTarget => ({
  id,
  name: id,
  kind: 'gpu',
  runtime: RuntimeKind.WebGpu,
  removable: true,
  ...more,
})
const needs = (profile?: WorkloadProfile) => ({ runtimes: [RuntimeKind.WebGpu, RuntimeKind.Cpu], profile })

/** A fast GPU behind a thin cable, and a slow one in a slot. */
const far = gpu('far', { flops: 3e13, memoryGBps: 900, linkGBps: { toDevice: 2.6, fromDevice: 2.6 } })
const near = gpu('near', { flops: 3e12, memoryGBps: 200, removable: false, linkGBps: { toDevice: 25, fromDevice: 25 } })

describe('where work is expected to be done first', () => {
  it('is behind the cable for arithmetic, in the slot for transfers', () => {
    const targets = [near, far]
    expect(chooseTarget({ needs: needs({ flops: 1e12, toDeviceBytes: 1e6 }), targets })?.id).toBe('far')
    expect(chooseTarget({ needs: needs({ flops: 1e9, toDeviceBytes: 1e8 }), targets })?.id).toBe('near')
  })

  it('follows what was measured, not what the label says', () => {
    const question = { needs: needs({ flops: 1e10, toDeviceBytes: 1e8 }), targets: [near, far] }
    const liar = { linkGBps: { toDevice: 0.1, fromDevice: 0.1 } }
    expect(chooseTarget(question)?.id).toBe('near')
    const circumstances = ({ id }: ComputeTarget) => ({ measured: id === 'near' ? liar : undefined })
    expect(chooseTarget({ ...question, circumstances })?.id).toBe('far')
  })

  it('counts the way of the state, so short work stays where its state is', () => {
    const question = { needs: needs({ flops: 1e11 }), targets: [near, far] }
    const job = { stateBytes: 8e9, residentOn: 'near' }
    expect(chooseTarget({ ...question, job: { ...job, unitsLeft: 10 } })?.id).toBe('near')
    expect(chooseTarget({ ...question, job: { ...job, unitsLeft: 10_000 } })?.id).toBe('far')
  })

  it('shuns what is lost again and again, as far as that costs', () => {
    const twin = { ...far, id: 'twin' }
    const circumstances = ({ id }: ComputeTarget) => ({ lossesPerHour: id === 'far' ? 60 : 1 })
    expect(chooseTarget({ needs: needs(), targets: [far, twin], circumstances })?.id).toBe('twin')
    expect(chooseTarget({ needs: needs(), targets: [far, cpuTarget().target], circumstances })?.id).toBe('far')
  })

  it('shares a target among those that run there', () => {
    const alone = estimate({ needs: needs({ flops: 1e12 }) }, far)
    const crowded = estimate({ needs: needs({ flops: 1e12 }) }, far, { sharing: 3 })
    expect(crowded.unitMs).toBeCloseTo(4 * alone.unitMs)
  })
})

describe('probeTarget', () => {
  it('measures link, latency, compute and memory of a target within 100 ms', async () => {
    await using machine = await bench()
    const { clock, manager } = machine
    const [target] = await machine.until(manager.targets())
    const open = await machine.until(manager.openTarget(target?.id ?? ''))
    const startedAt = clock.now()
    const rates = await machine.until(probeTarget(open.target, simHands(open), { clock }))
    expect(clock.now() - startedAt).toBeLessThanOrEqual(100)
    expect(rates.linkGBps?.toDevice).toBeCloseTo(open.target.linkGBps?.toDevice ?? 0, 1)
    expect(rates.linkGBps?.fromDevice).toBeCloseTo(open.target.linkGBps?.fromDevice ?? 0, 1)
    expect((rates.flops ?? 0) / 1e13).toBeCloseTo(1, 1)
    expect((rates.memoryGBps ?? 0) / 400).toBeCloseTo(1, 1)
    expect(rates.latencyMs).toBeCloseTo(0.04, 2)
  })

  it('refuses bytes that come back wrong, and bytes that came too fast to have gone over the cable', async () => {
    await using machine = await bench()
    const { clock } = machine
    let held = new Uint8Array()
    const hands = (gBps: number, spoil: (bytes: Uint8Array) => Uint8Array) => ({
      write: async (bytes: Uint8Array) => {
        await clock.sleep(bytes.byteLength / (gBps * 1e6))
        held = bytes.slice()
      },
      read: async (byteLength: number) => {
        await clock.sleep(byteLength / (gBps * 1e6))
        return spoil(held.subarray(0, byteLength))
      },
      [Symbol.asyncDispose]: () => Promise.resolve(),
    })
    const same = (bytes: Uint8Array) => bytes
    const probe = (gBps: number, spoil: (bytes: Uint8Array) => Uint8Array) =>
      machine.until(probeTarget(far, hands(gBps, spoil), { clock }))
    await expect(probe(2.7, same)).resolves.toMatchObject({ linkGBps: { toDevice: expect.closeTo(2.7, 1) } })
    await expect(probe(8.5, same)).rejects.toMatchObject({ code: EGpuErrorCode.MalformedData })
    await expect(probe(2.7, (bytes) => bytes.map(() => 0))).rejects.toThrow(/other bytes/)
  })
})

describe('probeTarget on a device that stops answering', () => {
  const stalling = (clock: Clock, at: 'write' | 'compute') => {
    let held = new Uint8Array()
    const never = () => new Promise<never>(() => {})
    return {
      write: async (bytes: Uint8Array) => {
        if (at === 'write') await never()
        await clock.sleep(bytes.byteLength / 5e6)
        held = bytes.slice()
      },
      read: async (byteLength: number) => {
        await clock.sleep(byteLength / 5e6)
        return held.subarray(0, byteLength)
      },
      compute: never,
      [Symbol.asyncDispose]: () => Promise.resolve(),
    }
  }

  it('is over when its time is, with an error where the link was not measured', async () => {
    await using machine = await bench()
    const { clock } = machine
    const startedAt = clock.now()
    const probe = probeTarget(far, stalling(clock, 'write'), { clock })
    await expect(machine.until(probe)).rejects.toMatchObject({ code: EGpuErrorCode.Timeout })
    expect(clock.now() - startedAt).toBe(100)
  })

  it('takes a pause of the machine for no property of the link', async () => {
    await using machine = await bench()
    const { clock } = machine
    const steady = stalling(clock, 'compute')
    let writes = 0
    const write = async (bytes: Uint8Array) => {
      await steady.write(bytes)
      if ((writes += 1) === 7) await clock.sleep(10)
    }
    const rates = await machine.until(probeTarget(far, { ...steady, write }, { clock }))
    expect(rates.linkGBps?.toDevice).toBeCloseTo(5, 0)
  })

  it('keeps what was measured before', async () => {
    await using machine = await bench()
    const { clock } = machine
    const startedAt = clock.now()
    const rates = await machine.until(probeTarget(far, stalling(clock, 'compute'), { clock }))
    expect(Object.keys(rates)).toEqual(['latencyMs', 'linkGBps'])
    expect(clock.now() - startedAt).toBe(100)
  })

  it('is abandoned at once by whoever asked', async () => {
    await using machine = await bench()
    const { clock } = machine
    const stop = new AbortController()
    const probe = probeTarget(far, stalling(clock, 'write'), { clock, signal: stop.signal })
    stop.abort(new Error('enough'))
    await expect(probe).rejects.toThrow('enough')
  })
})

describe('a migrator that may measure', () => {
  it('leaves a device that sleeps alone, and measures it when it has woken', async () => {
    const opened: string[] = []
    await using machine = await bench({
      probe: (open) => {
        opened.push(open.target.name)
        return simHands(open)
      },
    })
    const { clock, manager, migrator, boxes } = machine
    await clock.advance(1_000)
    expect(opened).toEqual(['A'])
    boxes[0]?.gpus[0]?.suspend()
    await clock.advance(1_000)
    expect(manager.devices[0]?.powerState).toBe('suspended')
    await machine.until(migrator.close())
    const measured: string[] = []
    await using second = new WorkloadMigrator(manager, {
      probe: async (open) => {
        measured.push(open.target.name)
        return simHands(open)
      },
    })
    await clock.advance(1_000)
    expect(measured).toEqual([])
    expect(manager.devices[0]?.powerState).toBe('suspended')
    const [target] = await machine.until(manager.targets())
    const open = await machine.until(manager.openTarget(target?.id ?? ''))
    await machine.until(open.close())
    await clock.advance(1_000)
    expect(measured).toEqual(['A'])
    await machine.until(second.close())
  })

  it('believes what it measured over what targets say of themselves', async () => {
    for (const isMeasured of [true, false]) {
      await using machine = await bench({
        boxes: 2,
        probe: isMeasured ? simHands : undefined,
      })
      const { clock, migrator, driver, boxes } = machine
      const { runtime } = driver
      if (runtime === undefined) throw new Error('the simulator has a runtime')
      boxes[0]?.degradeLink({ lanes: 1, gbpsPerLane: 1 })
      const targets = runtime.targets.bind(runtime)
      // Both claim the same cable.
      runtime.targets = async (options) =>
        (await targets(options)).map((target) => ({ ...target, linkGBps: { toDevice: 2.6, fromDevice: 2.6 } }))
      await clock.advance(1_000)
      const profile = { flops: 1e11, toDeviceBytes: 1e8 }
      const mixer = new Mixer({ clock, steps: 100_000 })
      const needs = { ...mixer.needs, profile }
      const run = migrator.run(Object.defineProperty(mixer, 'needs', { value: needs }))
      await machine.until(run.started)
      expect(run.where?.name).toBe(isMeasured ? 'B' : 'A')
    }
  })
})

describe('RateBook', () => {
  it('follows real copies slowly, and lets small ones be', () => {
    const book = new RateBook()
    book.measured('a', { linkGBps: { toDevice: 2, fromDevice: 2 } })
    book.copied('a', 'fromDevice', 1e9, 1_000)
    expect(book.of('a')?.linkGBps?.toDevice).toBe(2)
    expect(book.of('a')?.linkGBps?.fromDevice).toBeCloseTo(1.7)
    book.copied('a', 'fromDevice', 1_000, 1_000)
    expect(book.of('a')?.linkGBps?.fromDevice).toBeCloseTo(1.7)
    book.forget('a')
    expect(book.of('a')).toBeUndefined()
  })
})
