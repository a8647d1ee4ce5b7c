import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Heartbeat } from '../src/device/heartbeat.ts'

/** A queue that notes when it was asked, and finishes its work only when told to. */
function observedQueue(): { queue: GPUQueue; beats: number[]; finish: () => void; questions: () => number } {
  const beats: number[] = []
  let finish = (): void => {}
  let asked = 0
  const queue = {
    submit: () => void beats.push(performance.now()),
    onSubmittedWorkDone: () => {
      asked += 1
      return new Promise<void>((resolve) => (finish = resolve))
    },
  } as unknown as GPUQueue
  return { queue, beats, finish: () => finish(), questions: () => asked }
}

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())

test('beats less often once the device is idle, and at once more often when it gets work', async () => {
  const { queue, beats, finish, questions } = observedQueue()
  const heartbeat = new Heartbeat(queue, { intervalMs: 100, idleIntervalMs: 1000 }, () => {})
  const tick = async (ms: number): Promise<number> => {
    const before = beats.length
    for (let at = 0; at < ms; at += 100) {
      await vi.advanceTimersByTimeAsync(100)
      finish()
    }
    return beats.length - before
  }
  expect(await tick(5000)).toBe(50)
  expect(questions()).toBe(2)
  await tick(6000)
  expect(await tick(5000)).toBe(5)
  queue.submit([])
  expect(await tick(1000)).toBe(10)
  heartbeat.stop()
  expect(await tick(5000)).toBe(0)
})

test('leaves a device alone that is given work anyway, and is back within one interval after the last', async () => {
  const { queue, beats, finish, questions } = observedQueue()
  const heartbeat = new Heartbeat(queue, { intervalMs: 100 }, () => {})
  for (let at = 0; at < 3000; at += 30) {
    queue.submit([])
    await vi.advanceTimersByTimeAsync(30)
    finish()
  }
  expect(beats.length).toBe(100)
  expect(questions()).toBe(2)
  const lastAt = beats.at(-1) ?? 0
  await vi.advanceTimersByTimeAsync(100)
  expect(beats.length).toBe(101)
  expect(beats.at(-1)).toBe(lastAt + 100)
  heartbeat.stop()
})

test('beats stay one interval apart on average though every timer is late', async () => {
  const { queue, beats, finish } = observedQueue()
  const real = globalThis.setTimeout
  vi.stubGlobal('setTimeout', (action: () => void, ms: number) => real(action, ms + 7))
  const heartbeat = new Heartbeat(queue, { intervalMs: 50 }, () => {})
  for (let at = 0; at < 1000; at += 1) {
    await vi.advanceTimersByTimeAsync(1)
    finish()
  }
  heartbeat.stop()
  vi.unstubAllGlobals()
  // Without catching up it would be 17.
  expect(beats.length).toBe(19)
})

test('calls a device hung whose work does not come back, once', async () => {
  const { queue } = observedQueue()
  const onHang = vi.fn<(waitedMs: number) => void>()
  const heartbeat = new Heartbeat(queue, { intervalMs: 100, hangMs: 2000 }, onHang)
  await vi.advanceTimersByTimeAsync(2000)
  expect(onHang).not.toHaveBeenCalled()
  await vi.advanceTimersByTimeAsync(5000)
  expect(onHang).toHaveBeenCalledTimes(1)
  heartbeat.stop()
})

test('refuses an interval that is no positive number', () => {
  const { queue } = observedQueue()
  expect(() => new Heartbeat(queue, { intervalMs: 0 }, () => {})).toThrow(TypeError)
  expect(() => new Heartbeat(queue, { hangMs: Number.NaN }, () => {})).toThrow(TypeError)
})
