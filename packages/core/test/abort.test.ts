import { getEventListeners } from 'node:events'
import { expect, it } from 'vitest'
import { abandonable } from '../src/index.ts'

it('has one listener on a signal, however many wait on it, and none once all are done', async () => {
  const end = new AbortController()
  const ends: (() => void)[] = []
  const all = Array.from({ length: 200 }, () =>
    abandonable(new Promise<void>((resolve) => void ends.push(resolve)), end.signal),
  )
  expect(getEventListeners(end.signal, 'abort')).toHaveLength(1)
  for (const resolve of ends.slice(1)) resolve()
  await Promise.all(all.slice(1))
  await new Promise((resolve) => void setImmediate(resolve))
  expect(getEventListeners(end.signal, 'abort')).toHaveLength(1)
  ends[0]?.()
  await all[0]
  await new Promise((resolve) => void setImmediate(resolve))
  expect(getEventListeners(end.signal, 'abort')).toHaveLength(0)
})

it('rejects everybody who waits with the reason, and those who come later', async () => {
  const end = new AbortController()
  const reason = new Error('enough')
  const never = new Promise<never>(() => undefined)
  const all = Array.from({ length: 20 }, () => abandonable(never, end.signal))
  end.abort(reason)
  for (const one of [...all, abandonable(never, end.signal)]) await expect(one).rejects.toBe(reason)
})

it('lets an answer be that came before the abort', async () => {
  const end = new AbortController()
  const answer = abandonable(Promise.resolve(7), end.signal)
  expect(await answer).toBe(7)
  end.abort()
  expect(await answer).toBe(7)
})
