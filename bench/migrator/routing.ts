import { EGpuManager, ThunderboltSpeed } from '@egpu/core'
import type { ComputeTarget, OpenTarget } from '@egpu/core'
import { seededRandom, simDriver, VirtualClock } from '@egpu/driver-sim'
import type { SimGpu } from '@egpu/driver-sim'
import type { Random } from '@egpu/driver-sim'
import { chooseTarget, probeTarget } from '@egpu/migrator'
import type { MeasuredRates, ProbeHands } from '@egpu/migrator'
import { simHands } from '../../packages/migrator/test/helpers/sim-hands.ts'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'

/** What crosses the link each way per step, what a byte of it is computed with, and how many steps there are. */
const bytesPerStep = [4e3, 64e3, 1e6, 8e6]
const flopsPerByte = [1, 30, 1e3, 3e4, 1e6, 3e7]
const vramPerByte = [1, 100]
const steps = [1, 10, 100, 1_000, 100_000]
const stateBytes = 16e6

const probeBudgetMs = 100

/** Nobody measures undisturbed, and nobody knows exactly what a step of his work costs: both are off by up to so much. */
const disturbance = 0.25

interface Job {
  readonly bytes: number
  readonly flops: number
  readonly vramBytes: number
}

/** What the simulator really takes, by target: once to bring the state there, and for each step. */
interface Truth {
  readonly setupMs: number
  readonly stepMs: number
}

/** The planner's choice against the best of all, by running every job on every simulated GPU. */
export async function measure(): Promise<Figure[]> {
  const clock = new VirtualClock()
  const driver = simDriver({
    clock,
    gpus: [{ id: 'old-card', name: 'old card', flops: 1.5e12, memoryGBps: 90 }],
    enclosures: [
      { plugged: true, speed: ThunderboltSpeed.TB3, gpus: [{ id: 'tb3', name: 'TB3', flops: 3e13, memoryGBps: 900 }] },
      {
        plugged: true,
        speed: ThunderboltSpeed.TB1,
        gpus: [{ id: 'tb1', name: 'TB1', flops: 5e13, memoryGBps: 1_000 }],
      },
      { plugged: true, speed: ThunderboltSpeed.TB4, gpus: [{ id: 'tb4', name: 'TB4', flops: 1e13, memoryGBps: 400 }] },
      { plugged: true, transport: 'oculink', gpus: [{ id: 'oculink', name: 'OCuLink', flops: 6e12, memoryGBps: 300 }] },
    ],
  })
  const manager = await clock.runUntil(EGpuManager.create({ drivers: [driver], clock }))
  const targets = await clock.runUntil(manager.targets())
  const rates = new Map<string, MeasuredRates>()
  const random = seededRandom(7)
  const truths: { readonly job: Job; readonly truth: ReadonlyMap<string, Truth> }[] = []
  const probeMs: number[] = []
  const opened = new Map<string, OpenTarget>()
  for (const target of targets) {
    const open = await clock.runUntil(manager.openTarget(target.id))
    opened.set(target.id, open)
    const startedAt = clock.now()
    rates.set(
      target.id,
      await clock.runUntil(
        probeTarget(target, disturbed(simHands(open), clock, random), { clock, budgetMs: probeBudgetMs }),
      ),
    )
    probeMs.push(clock.now() - startedAt)
  }
  for (const bytes of bytesPerStep) {
    for (const intensity of flopsPerByte) {
      for (const vram of vramPerByte) {
        const job = { bytes, flops: bytes * intensity, vramBytes: bytes * vram }
        const truth = new Map<string, Truth>()
        for (const [id, open] of opened) truth.set(id, await run(clock, open.handle as SimGpu, job))
        truths.push({ job, truth })
      }
    }
  }
  await clock.runUntil(manager.close())

  // A label may be off by 30 times either way, and the same wrong one comes with every look.
  const lying = targets.map((target): ComputeTarget => {
    const lie = 30 ** random.between(-1, 1)
    return { ...target, linkGBps: { toDevice: 2.6 * lie, fromDevice: 2.6 * lie }, latencyMs: 0.04 / lie }
  })
  const regret = (labels: readonly ComputeTarget[], isProbed: boolean): number[] =>
    truths.flatMap(({ job, truth }) =>
      steps.map((count) => {
        const told = (amount: number): number => amount * (1 + random.between(-disturbance, disturbance))
        const time = ({ setupMs, stepMs }: Truth): number => setupMs + count * stepMs
        const chosen = chooseTarget({
          needs: {
            runtimes: ['simulated'],
            profile: {
              flops: told(job.flops),
              vramBytes: told(job.vramBytes),
              toDeviceBytes: told(job.bytes),
              fromDeviceBytes: told(job.bytes),
            },
          },
          job: { unitsLeft: count, stateBytes },
          targets: labels,
          circumstances: ({ id }) => ({ lossesPerHour: 0, measured: isProbed ? rates.get(id) : undefined }),
        })
        const best = Math.min(...[...truth.values()].map(time))
        return time(truth.get(chosen?.id ?? '') as Truth) / best - 1
      }),
    )
  const choices = `${truths.length * steps.length} jobs on ${targets.length} GPUs, each run on all of them; costs told and copies timed ${100 * disturbance} % wrong`
  return [
    ...figures('regret with right labels', regret(targets, false), choices),
    ...figures('regret with right labels and probes', regret(targets, true), choices),
    ...figures('regret with wrong link labels, corrected by probes', regret(lying, true), choices),
    ...figures('regret with wrong link labels and no probe', regret(lying, false), choices).map(
      ({ figure, value, unit, against }) => ({ figure, value, unit, against }),
    ),
    {
      figure: 'longest probe of a target',
      value: Math.max(...probeMs),
      unit: 'ms of virtual time',
      ratio: Math.max(...probeMs) / probeBudgetMs,
      bar: `<= ${probeBudgetMs} ms`,
      pass: Math.max(...probeMs) <= probeBudgetMs,
    },
  ]
}

function figures(name: string, regrets: readonly number[], against: string): Figure[] {
  const mean = regrets.reduce((sum, regret) => sum + regret, 0) / regrets.length
  const p99 = percentile(regrets, 0.99)
  return [
    {
      figure: `${name}, mean`,
      value: 100 * mean,
      unit: '%',
      against,
      ratio: 1 + mean,
      bar: '<= 5 %',
      pass: mean <= 0.05,
    },
    { figure: `${name}, p99`, value: 100 * p99, unit: '%', against, ratio: 1 + p99, bar: '<= 15 %', pass: p99 <= 0.15 },
  ]
}

/** Somebody else's traffic delays each copy. */
function disturbed(hands: ProbeHands, clock: VirtualClock, random: Random): ProbeHands {
  const delayed = async <T>(work: Promise<T>): Promise<T> => {
    const startedAt = clock.now()
    const value = await work
    await clock.sleep((clock.now() - startedAt) * random.between(0, disturbance))
    return value
  }
  return {
    write: (bytes, options) => delayed(hands.write(bytes, options)),
    read: (byteLength, options) => delayed(hands.read(byteLength, options)),
    compute: (flops, options) => delayed(hands.compute?.(flops, options) ?? Promise.resolve()),
    stream: (byteLength, options) => delayed(hands.stream?.(byteLength, options) ?? Promise.resolve()),
    [Symbol.asyncDispose]: () => hands[Symbol.asyncDispose](),
  }
}

/** Two steps, so that the second is as all that follow. */
async function run(clock: VirtualClock, gpu: SimGpu, { bytes, flops, vramBytes }: Job): Promise<Truth> {
  const timed = async (work: () => Promise<unknown>): Promise<number> => {
    const startedAt = clock.now()
    await clock.runUntil(work())
    return clock.now() - startedAt
  }
  const state = gpu.createBuffer(stateBytes)
  const setupMs = await timed(() => gpu.write(state, new Uint8Array(stateBytes)))
  const input = new Uint8Array(bytes)
  const step = async (): Promise<void> => {
    await gpu.write(state, input)
    await gpu.run(() => undefined, { flops, vramBytes })
    await gpu.read(state, { byteLength: bytes })
  }
  await timed(step)
  const stepMs = await timed(step)
  gpu.destroyBuffer(state)
  return { setupMs, stepMs }
}
