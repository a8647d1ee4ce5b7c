import { monitorEventLoopDelay } from 'node:perf_hooks'
import { protectDevice, protectionOf, wgpuDriver } from '@egpu/driver-wgpu'
import type { ProtectionEvent } from '@egpu/driver-wgpu'
import { readBack, startSteps } from '../../packages/driver-wgpu/test/support/workload.ts'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'
import { heartbeatFigure } from './child/heartbeat-cost.ts'
import { control } from './rig.ts'

const losses = 200

interface Recoveries {
  /** From the `submit` in which the driver says that the device is lost to the event. */
  readonly detection: readonly number[]
  /** The same and what the application does first, encoding its work. */
  readonly withEncoding: readonly number[]
  /** How much of it that `submit` takes, in which Dawn lets go of everything that the device has. */
  readonly dawn: readonly number[]
  readonly rto: readonly number[]
}

/**
 * From the call that loses the device to the application's next result. A checkpoint lies right before, so nothing has
 * to be done again, and what there is to upload is 16 KiB.
 */
async function recover(): Promise<Recoveries> {
  let lostAt = 0
  const detection: number[] = []
  const withEncoding: number[] = []
  const dawn: number[] = []
  const rto: number[] = []
  let heard: (event: ProtectionEvent) => void = () => {}
  const device = await protectDevice({ onEvent: (event) => heard(event), checkpoint: { intervalMs: Infinity } })
  const steps = startSteps(device)
  using submits = new Submits(Object.getPrototypeOf(device.queue) as GPUQueue)
  heard = ({ type }) => {
    if (type !== 'lost') return
    const now = performance.now()
    const { sentAt, returnedAt } = submits.lastUntil(now)
    detection.push(now - sentAt)
    withEncoding.push(now - lostAt)
    dawn.push(returnedAt - sentAt)
  }
  for (let at = 0; at < losses; at += 1) {
    steps.step()
    await protectionOf(device).checkpoint()
    control.loseAt('submit', 1)
    lostAt = performance.now()
    steps.step()
    await device.queue.onSubmittedWorkDone()
    rto.push(performance.now() - lostAt)
  }
  device.destroy()
  await device.lost
  return { detection, withEncoding, dawn, rto: rto.slice(5) }
}

interface IdleLoss {
  /** From the loss to its event, over the interval of the heartbeat. */
  readonly overMs: number
  /** How much later than one interval after the last the beat was sent: how late this process was woken. */
  readonly beatLateMs: number
  /** From the beat to the event, what Dawn and we take; below 0 where something else found it before the beat was due. */
  readonly afterBeatMs: number
}

/** How long an idle device takes to hear of its loss. */
async function idleDetection(intervalMs: number): Promise<readonly IdleLoss[]> {
  const losses: IdleLoss[] = []
  await using driver = wgpuDriver({ heartbeat: { intervalMs } })
  const [target] = await driver.runtime.targets()
  const id = target?.id ?? ''
  const first = await driver.runtime.open(id)
  using beats = new Submits(first.handle.queue)
  await first.close()
  for (let at = 0; at < 60; at += 1) {
    const open = await driver.runtime.open(id)
    // Somewhere between two beats, the first of which was no matter of opening it.
    await new Promise((resolve) => setTimeout(resolve, 2 * intervalMs + (at % intervalMs)))
    const lostAt = performance.now()
    const before = beats.lastUntil(lostAt).sentAt
    control.lose()
    const [{ atMs }] = await Promise.all([open.lost, new Promise((resolve) => setTimeout(resolve, intervalMs))])
    control.heal()
    const sentAt = beats.lastUntil(atMs).sentAt
    losses.push({
      overMs: atMs - lostAt - intervalMs,
      beatLateMs: Math.max(0, sentAt - before - intervalMs),
      afterBeatMs: atMs - (sentAt > lostAt ? sentAt : before + intervalMs),
    })
    await open.close()
  }
  return losses
}

type Submit = (this: GPUQueue, commands: Iterable<GPUCommandBuffer>) => undefined

interface Sent {
  readonly sentAt: number
  returnedAt: number
}

/** When the queues of this process were given work, from their prototype: a heartbeat's too. */
class Submits implements Disposable {
  readonly #prototype: GPUQueue
  readonly #original: Submit
  readonly #all: Sent[] = []

  constructor(queue: GPUQueue) {
    this.#prototype = Object.getPrototypeOf(queue) as GPUQueue
    this.#original = Reflect.get(this.#prototype, 'submit') as Submit
    const [all, original] = [this.#all, this.#original]
    this.#prototype.submit = function (this: GPUQueue, commands) {
      const sent: Sent = { sentAt: performance.now(), returnedAt: Number.NaN }
      all.push(sent)
      original.call(this, commands)
      sent.returnedAt = performance.now()
    }
  }

  lastUntil(time: number): Sent {
    return this.#all.findLast(({ sentAt }) => sentAt <= time) ?? { sentAt: Number.NaN, returnedAt: Number.NaN }
  }

  [Symbol.dispose](): void {
    this.#prototype.submit = this.#original
  }
}

/** The same by hand, with nothing lost: a device, the pipeline, the first step, its result. The best that can be had. */
async function byHand(): Promise<readonly number[]> {
  const times: number[] = []
  await using driver = wgpuDriver()
  const [target] = await driver.runtime.targets()
  for (let at = 0; at < 40; at += 1) {
    const begun = performance.now()
    await using open = await driver.runtime.open(target?.id ?? '')
    const steps = startSteps(open.handle)
    steps.step()
    await readBack(open.handle, steps.state)
    times.push(performance.now() - begun)
  }
  return times.slice(5)
}

async function heartbeatOfIdleDevice(): Promise<Figure> {
  await using driver = wgpuDriver({ heartbeat: { intervalMs: 1e6, idleIntervalMs: 1e6 } })
  const [target] = await driver.runtime.targets()
  return await heartbeatFigure((await driver.runtime.open(target?.id ?? '')).handle)
}

export async function measure(): Promise<Figure[]> {
  // How late this very process is woken up: what a busy machine adds to everything below.
  const delays = monitorEventLoopDelay({ resolution: 1 })
  delays.enable()
  const { detection, withEncoding, dawn, rto } = await recover()
  const hand = await byHand()
  const idle = await idleDetection(20)
  delays.disable()
  const heartbeat = await heartbeatOfIdleDevice()
  const [p50, p99, best] = [percentile(rto, 0.5), percentile(rto, 0.99), percentile(hand, 0.99)]
  const found = percentile(detection, 0.99)
  const of = (kind: keyof IdleLoss, share: number): number =>
    percentile(
      idle.map((loss) => loss[kind]),
      share,
    )
  const wakeUps = `wake-ups of this process late by ${(delays.percentile(99) / 1e6 - 1).toFixed(1)} ms p99`
  return [
    { figure: 'cold RTO p50', value: p50, unit: 'ms' },
    {
      figure: 'cold RTO p99',
      value: p99,
      unit: 'ms',
      against: `a new device with pipeline and result by hand, p99 ${best.toFixed(1)} ms`,
      ratio: p99 / best,
      bar: '<= 150 ms',
      pass: p99 <= 150,
    },
    { figure: 'detection while busy p50', value: percentile(detection, 0.5), unit: 'ms' },
    {
      figure: 'detection while busy p99',
      value: found,
      unit: 'ms',
      against: `the submit in which the driver says so, p99 ${percentile(dawn, 0.99).toFixed(2)} ms of it; ${wakeUps}`,
      bar: '<= 1 ms',
      pass: found <= 1,
    },
    {
      figure: 'detection while busy p99, with the encoding of the work before',
      value: percentile(withEncoding, 0.99),
      unit: 'ms',
    },
    { figure: 'detection while idle p50, over the heartbeat', value: of('overMs', 0.5), unit: 'ms' },
    {
      figure: 'detection while idle p99, over the heartbeat',
      value: of('overMs', 0.99),
      unit: 'ms',
      against: `heartbeat of 20 ms, whose beat was sent ${of('beatLateMs', 0.99).toFixed(1)} ms late p99; ${wakeUps}`,
    },
    { figure: 'detection while idle p50, from the beat that was sent', value: of('afterBeatMs', 0.5), unit: 'ms' },
    {
      figure: 'detection while idle p99, from the beat that was sent',
      value: of('afterBeatMs', 0.99),
      unit: 'ms',
      against: wakeUps,
      bar: '<= 1 ms',
      pass: of('afterBeatMs', 0.99) <= 1,
    },
    heartbeat,
  ]
}
