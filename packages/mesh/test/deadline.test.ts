import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { within } from '../src/deadline.ts'

/** As happens sooner or later. */
function collectGarbage(): void {
  setFlagsFromString('--expose_gc')
  const collect = runInNewContext('gc') as () => void
  collect()
}

/** Nothing else holds the signal. */
function fired(make: () => AbortSignal): Promise<unknown> {
  const signal = make()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(signal.reason), { once: true }))
}

it.each([undefined, new AbortController().signal])(
  'is up when its time is, whatever was collected meanwhile',
  async (signal) => {
    const ended = fired(() => within(200, signal))
    await new Promise((resolve) => setTimeout(resolve, 20))
    collectGarbage()
    await new Promise((resolve) => setTimeout(resolve, 20))
    collectGarbage()
    expect(await ended).toMatchObject({ name: 'TimeoutError' })
  },
)

it("is up with the caller's own reason when that signal fires first", async () => {
  const caller = new AbortController()
  const ended = fired(() => within(100_000, caller.signal))
  caller.abort('given up')
  expect(await ended).toBe('given up')
  expect(within(100_000, caller.signal).aborted).toBe(true)
})
