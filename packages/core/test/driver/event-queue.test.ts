import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EventQueue } from '../../src/driver/event-queue.ts'

const done = { value: undefined, done: true }
const item = (value: number) => ({ value, done: false })

async function drain(queue: EventQueue<number>): Promise<number[]> {
  const read: number[] = []
  for await (const value of queue) read.push(value)
  return read
}

describe('EventQueue', () => {
  it('keeps the order whoever comes first, the item or its reader', () =>
    fc.assert(
      fc.asyncProperty(fc.array(fc.boolean(), { maxLength: 200 }), async (pushes) => {
        const queue = new EventQueue<number>()
        const reads: Promise<IteratorResult<number>>[] = []
        let pushed = 0
        for (const push of pushes) {
          if (push) queue.push((pushed += 1))
          else reads.push(queue.next())
        }
        expect(queue.pending).toBe(Math.max(0, pushed - reads.length))
        queue.finish()
        const results = await Promise.all(reads)
        expect(results).toEqual(results.map((_, index) => (index < pushed ? item(index + 1) : done)))
        expect(await drain(queue)).toHaveLength(Math.max(0, pushed - reads.length))
      }),
    ))

  it('holds many without losing one', async () => {
    const queue = new EventQueue<number>()
    const many = Array.from({ length: 5_000 }, (_, index) => index)
    for (const value of many) queue.push(value)
    for (const value of many.slice(0, 3_000)) expect(await queue.next()).toEqual(item(value))
    expect(queue.pending).toBe(2_000)
    queue.finish()
    expect(await drain(queue)).toEqual(many.slice(3_000))
  })

  it('lets what was pushed be read after finish and before the error of fail', async () => {
    const finished = new EventQueue<number>()
    finished.push(1)
    finished.finish()
    finished.push(2)
    expect(await drain(finished)).toEqual([1])
    const failed = new EventQueue<number>()
    failed.push(1)
    failed.fail(new Error('broken'))
    expect(await failed.next()).toEqual(item(1))
    await expect(failed.next()).rejects.toThrow('broken')
    expect(await failed.next()).toEqual(done)
  })

  it('drops what is unread at the end and on abort, and answers every reader', async () => {
    const controller = new AbortController()
    const queue = new EventQueue<number>({ signal: controller.signal })
    const reads = [queue.next(), queue.next()]
    controller.abort(new Error('never thrown'))
    expect(await Promise.all(reads)).toEqual([done, done])
    queue.push(1)
    expect(await queue.next()).toEqual(done)
    const ended = new EventQueue<number>()
    ended.push(1)
    ended.fail(new Error('never thrown either'))
    ended.end()
    expect(await ended.next()).toEqual(done)
  })

  it('throws a failure to one waiting reader and ends the others', async () => {
    const queue = new EventQueue<number>()
    const reads = [queue.next(), queue.next()]
    queue.fail(new Error('broken'))
    await expect(reads[0]).rejects.toThrow('broken')
    expect(await reads[1]).toEqual(done)
  })

  it('says once that it ended, however it ended, also when it never began', async () => {
    let ends = 0
    const onEnd = (): void => {
      ends += 1
    }
    const left = new EventQueue<number>({ onEnd })
    left.push(1)
    for await (const _ of left) break
    left.end()
    left.finish()
    expect(ends).toBe(1)
    const stillborn = new EventQueue<number>({ onEnd, signal: AbortSignal.abort() })
    expect(await stillborn.next()).toEqual(done)
    expect(ends).toBe(2)
  })

  it('forgets what is unread when told to', async () => {
    const queue = new EventQueue<number>()
    queue.push(1)
    queue.clear()
    queue.push(2)
    expect(await queue.next()).toEqual(item(2))
  })
})
