import { EGpuErrorCode } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { VirtualClock } from '../src/index.ts'

describe('VirtualClock', () => {
  it('wakes sleepers in due order, those of one time in the order they went to sleep', async () => {
    const clock = new VirtualClock()
    const woken: string[] = []
    const sleeper = async (name: string, ms: number): Promise<void> => {
      await clock.sleep(ms)
      woken.push(`${name}@${clock.now()}`)
    }
    const all = [sleeper('late', 30), sleeper('one', 10), sleeper('other', 10), sleeper('now', 0)]
    await clock.run()
    await Promise.all(all)
    expect(woken).toEqual(['now@0', 'one@10', 'other@10', 'late@30'])
  })

  it('lets all promise callbacks run before the next sleeper wakes', async () => {
    const clock = new VirtualClock()
    const trace: string[] = []
    const deep = async (): Promise<void> => {
      await clock.sleep(10)
      for (let depth = 0; depth < 50; depth += 1) await Promise.resolve()
      trace.push('deep')
    }
    const next = async (): Promise<void> => {
      await clock.sleep(10)
      trace.push('next')
    }
    const both = [deep(), next()]
    await clock.run()
    await Promise.all(both)
    expect(trace).toEqual(['deep', 'next'])
  })

  it('advances exactly as far as told', async () => {
    const clock = new VirtualClock()
    let woken = 0
    const loop = async (): Promise<void> => {
      for (;;) {
        await clock.sleep(10)
        woken += 1
      }
    }
    void loop()
    await clock.advance(35)
    expect([clock.now(), woken, clock.nextMs, clock.sleeping]).toEqual([35, 3, 40, 1])
  })

  it('rejects a sleep with the abort reason and forgets it', async () => {
    const clock = new VirtualClock()
    const end = new AbortController()
    const sleep = clock.sleep(1000, { signal: end.signal })
    end.abort('enough')
    await expect(sleep).rejects.toBe('enough')
    await expect(clock.sleep(1, { signal: end.signal })).rejects.toBe('enough')
    expect(clock.sleeping).toBe(0)
  })

  it('tells "nothing left to do" from "waits for ever"', async () => {
    const clock = new VirtualClock()
    await clock.run()
    const stuck = clock.runUntil(new Promise(() => undefined))
    await expect(stuck).rejects.toMatchObject({ code: EGpuErrorCode.Timeout })
  })

  it('gives up on sleepers that keep coming', async () => {
    const clock = new VirtualClock()
    const poll = async (): Promise<void> => {
      for (;;) await clock.sleep(100)
    }
    void poll()
    await expect(clock.run({ limitMs: 1000 })).rejects.toMatchObject({ code: EGpuErrorCode.Timeout })
    expect(clock.now()).toBe(1000)
  })

  it('passes on what the awaited work gives or throws, and stops there', async () => {
    const clock = new VirtualClock()
    const work = async (): Promise<string> => {
      await clock.sleep(5)
      return 'done'
    }
    void clock.sleep(50)
    await expect(clock.runUntil(work())).resolves.toBe('done')
    expect(clock.now()).toBe(5)
    await expect(clock.runUntil(Promise.reject(new Error('no')))).rejects.toThrow('no')
  })

  it('stands still while work outside the clock is held', async () => {
    const clock = new VirtualClock()
    const outside = async (): Promise<number> => {
      await clock.hold(crypto.subtle.digest('SHA-256', new Uint8Array(1 << 20)))
      return clock.now()
    }
    void clock.sleep(1)
    await expect(clock.runUntil(outside())).resolves.toBe(0)
  })

  it('waits for work outside the clock that nobody held before it calls the wait endless', async () => {
    const clock = new VirtualClock()
    const outside = new Promise((resolve) => {
      setTimeout(() => resolve('late'), 30)
    })
    await expect(clock.runUntil(outside)).resolves.toBe('late')
  })

  it('refuses to be driven twice at once, and times that are none', async () => {
    const clock = new VirtualClock()
    const first = clock.advance(1)
    await expect(clock.advance(1)).rejects.toThrow(TypeError)
    await first
    await expect(clock.advance(-1)).rejects.toThrow(TypeError)
    await expect(clock.sleep(Number.NaN)).rejects.toThrow(TypeError)
  })
})
