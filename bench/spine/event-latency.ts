import { EGpuManager } from '@egpu/core'
import type { DeviceObservation, DriverEvent } from '@egpu/core/driver'
import { EventEmitter } from 'eventemitter3'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'
import { tinyDevice, tinyDriver } from './tiny-driver.ts'

const devices = 1_000
const rounds = 20_000
const warmUp = 4_000

/** One event at a time, each from an idle event loop, as events of hardware come. `prepare` is not measured. */
async function samplesOf<T>(
  prepare: (round: number) => T,
  send: (made: T) => void,
  arrived: () => number,
): Promise<number[]> {
  const samples: number[] = []
  for (let round = 0; round < rounds + warmUp; round += 1) {
    const made = prepare(round)
    const sentAt = performance.now()
    send(made)
    await new Promise(setImmediate)
    if (round >= warmUp) samples.push((arrived() - sentAt) * 1_000)
  }
  return samples
}

/** From a driver's push to the application's listener, among 1,000 devices, next to the least an emitter can do. */
export async function measure(): Promise<Figure[]> {
  let arrivedAt = 0
  const emitter = new EventEmitter<{ event: [{ readonly type: string }] }>()
  emitter.on('event', () => {
    arrivedAt = performance.now()
  })
  const bare = (): Promise<number[]> =>
    samplesOf(
      () => undefined,
      () => {
        queueMicrotask(() => emitter.emit('event', { type: 'power-state-changed' }))
      },
      () => arrivedAt,
    )

  const known = Array.from({ length: devices }, (_, index) => tinyDevice(index))
  const driver = tinyDriver(known)
  await using manager = await EGpuManager.create({ drivers: [driver] })
  await manager.startMonitoring({ healthIntervalMs: 0 })
  let heard = 0
  manager.on('power-state-changed', () => {
    heard += 1
    arrivedAt = performance.now()
  })
  /** As a driver that follows a device does it: what did not change is the object it was. */
  const powered =
    (busy: number) =>
    (round: number): DriverEvent => {
      const powerState = Math.floor(round / busy) % 2 === 0 ? 'idle' : 'active'
      return { type: 'device-observed', device: { ...(known[round % busy] as DeviceObservation), powerState } }
    }
  const figures: Figure[] = []
  const cases = [
    { figure: 'event-latency-one-busy-of-1000', busy: 1 },
    { figure: 'event-latency-all-1000-busy', busy: devices },
  ]
  for (const { figure, busy } of cases) {
    const before = await bare()
    heard = 0
    const ours = await samplesOf(powered(busy), driver.push, () => arrivedAt)
    if (heard < rounds + warmUp - 1) throw new Error(`${rounds + warmUp} events were sent, ${heard} arrived`)
    const p50 = percentile(ours, 0.5)
    const rival = percentile([...before, ...(await bare())], 0.5)
    const against = `eventemitter3 emit in a microtask, ${rival.toFixed(2)} µs`
    const value = p50
    const unit = 'µs'
    figures.push(
      { figure: `${figure}-p50`, value, unit, against: '50 µs', ratio: p50 / 50, bar: '<= 50 µs', pass: p50 <= 50 },
      {
        figure: `${figure}-p50-vs-bare`,
        value,
        unit,
        against,
        ratio: p50 / rival,
        bar: '<= 3 x',
        pass: p50 <= 3 * rival,
      },
      { figure: `${figure}-p99`, value: percentile(ours, 0.99), unit },
    )
  }
  return figures
}
