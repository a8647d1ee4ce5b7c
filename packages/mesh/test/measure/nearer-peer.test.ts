import { describe, expect, it } from 'vitest'
import { choosePeer } from '../../src/choose-peer.ts'
import { LatencyHistory } from '../../src/measure/latency-history.ts'
import { isConfirmed } from '../../src/measure/probe.ts'
import type { BestPeer, MeshPeer } from '../../src/peer.ts'
import { randomFrom } from '../helpers/random.ts'

type Random = (below: number) => number

/** Always in the way a little, now and then a lot: what a round trip takes beyond the link itself. */
function noiseUs(random: Random, busyUs: number): number {
  const exponential = -Math.log(1 - random(1)) * 15
  return exponential + (random(50) < 1 ? random(4_000) : 0) + busyUs
}

/**
 * A window of round trips over a link. A busy machine lengthens all of them: by something else in each window, and in
 * spells of several windows.
 */
function windowOf(random: Random, linkUs: number, isBusy: boolean): { minUs: number; p50Us: number; samples: number } {
  const busyUs = isBusy ? 20 + random(120) : random(4)
  const times = Array.from({ length: 200 }, () => linkUs + noiseUs(random, busyUs)).toSorted((a, b) => a - b)
  return { minUs: times[0] as number, p50Us: times[100] as number, samples: times.length }
}

const peer = (id: string, latencyUs: number): MeshPeer => ({
  id,
  hostname: id,
  targets: [],
  links: [
    {
      id: `link ${id}`,
      kind: 'thunderbolt',
      interfaceName: 'thunderbolt0',
      address: 'fe80::1%thunderbolt0',
      localAddress: 'fe80::2%thunderbolt0',
      port: undefined,
      sticker: undefined,
      trained: undefined,
      measured: { latencyUs },
      mtu: undefined,
      remoteMtu: undefined,
    },
  ],
})

/** Two links that are measured in turn for a while by a machine that is busy two thirds of the time; who is chosen? */
function chosen(seed: number, nearUs: number, awayUs: number): string | undefined {
  const random = randomFrom(seed)
  const [near, away] = [new LatencyHistory(), new LatencyHistory()]
  // It begins with the wrong one.
  let best: BestPeer | undefined = choosePeer([peer('away', 1)], 'latency')
  let [isBusy, spell] = [false, 0]
  for (let nowMs = 0; nowMs <= 40_000; nowMs += 1_500) {
    if (spell <= 0) {
      isBusy = random(3) >= 1
      spell = 1 + random(4)
    }
    spell -= 1
    near.add(windowOf(random, nearUs, isBusy), nowMs)
    away.add(windowOf(random, awayUs, isBusy), nowMs)
    best = choosePeer([peer('near', near.minUs as number), peer('away', away.minUs as number)], 'latency', best)
  }
  return best?.peerId
}

describe('of two peers 50 µs apart, the nearer one is chosen in 100 of 100 trials on a busy machine', () => {
  for (const nearUs of [40, 300, 2_000])
    it(`at ${nearUs} µs`, () => {
      const trials = Array.from({ length: 100 }, (_, seed) => chosen(seed, nearUs, nearUs + 50))
      expect(trials.filter((id) => id === 'near')).toHaveLength(100)
    })
})

describe('a history of latencies', () => {
  it('has the shortest of half a minute, and forgets what is older', () => {
    const history = new LatencyHistory()
    expect(history.minUs).toBeUndefined()
    const add = (minUs: number, nowMs: number): void => history.add({ minUs, p50Us: minUs + 5, samples: 200 }, nowMs)
    add(300, 0)
    add(380, 10_000)
    add(390, 20_000)
    expect([history.minUs, history.lastP50Us]).toEqual([300, 395])
    add(370, 31_000)
    expect(history.minUs).toBe(370)
    // Nothing could be measured for an hour: the last is better than none.
    add(900, 3_600_000)
    expect(history.minUs).toBe(900)
  })
})

describe('the shortest round trip', () => {
  it('counts once others came close to it', () => {
    expect(isConfirmed([300, 301, 302, 304, 305, 400, 500])).toBe(true)
    expect(isConfirmed([300, 330, 345, 350, 360, 400, 500])).toBe(false)
    expect(isConfirmed([40, 41, 42, 42.5, 43, 90])).toBe(true)
    expect(isConfirmed([40])).toBe(true)
  })
})
