import type { HealthSample } from '@egpu/core'
import { seededRandom } from '@egpu/driver-sim'
import type { Random } from '@egpu/driver-sim'

/** How a device ends, or does not. */
export const precursorFamilies = [
  'cable-wiggle',
  'thermal-ramp',
  'supply-sag',
  'retrain-flapping',
  'driver-hang',
] as const
export const faultFamilies: readonly Family[] = [...precursorFamilies, 'yank']
export const benignFamilies = [
  'quiet',
  'bursty-load',
  'sleepy',
  'hot-but-throttled',
  'fictional-link',
  'noisy-neighbour',
  'busy-host',
] as const

export type Family = (typeof precursorFamilies)[number] | 'yank' | (typeof benignFamilies)[number]

/** What drivers read of one device over some hours, and when it failed, if it did. */
export interface Trace {
  readonly family: Family
  readonly samples: readonly HealthSample[]
  /** The last reading is before this. */
  readonly failedAtMs: number | undefined
  readonly lengthMs: number
}

const intervalMs = 5_000
const minute = 60_000
const hour = 60 * minute

/** The state of a device, as physics has it; what a reading shows is made from it. */
interface Physics {
  celsius: number
  readonly limit: number
  load: number
  fan: number
  correctable: number
  nonfatal: number
  linkRatio: number
  latencyMs: number
  ripple: number
  /** This much later than due the reading comes. */
  lateMs: number
}

/** One trace from a seed. `hours` of a benign one; a faulty one runs for half an hour to two hours and then fails. */
export function trace(family: Family, seed: number, hours: number = 2): Trace {
  const random = seededRandom(seed)
  const isFault = faultFamilies.includes(family)
  const failsAtMs = isFault ? random.between(0.5, 2) * hour : undefined
  let lengthMs = failsAtMs ?? hours * hour
  const script = scripts[family](random, failsAtMs ?? Infinity)
  const body = new Body(random)
  const samples: HealthSample[] = []
  for (let atMs = 0; atMs < lengthMs; atMs += intervalMs) {
    body.live(intervalMs / 1_000)
    if (script(body.physics, atMs) === 'died') lengthMs = atMs
    const seenAtMs = atMs + body.physics.lateMs + random.between(0, 60)
    if (seenAtMs < lengthMs && seenAtMs > (samples.at(-1)?.atMs ?? -1)) samples.push(body.read(seenAtMs))
  }
  return { family, samples, failedAtMs: isFault ? lengthMs : undefined, lengthMs }
}

class Body {
  readonly physics: Physics
  readonly #random: Random
  readonly #idleWatts: number
  readonly #loadWatts: number
  readonly #limit: number
  readonly #ambient: number
  readonly #tau: number
  readonly #probeMs: number
  #busyUntil = 0
  #seconds = 0

  constructor(random: Random) {
    this.#random = random
    this.#idleWatts = random.between(10, 30)
    this.#loadWatts = random.between(180, 420)
    this.#limit = random.between(80, 95)
    this.#ambient = random.between(18, 30)
    this.#tau = random.between(40, 90)
    this.#probeMs = random.between(0.2, 2)
    this.physics = {
      celsius: this.#ambient + 8,
      limit: this.#limit,
      load: 1,
      fan: 1,
      correctable: 0,
      nonfatal: 0,
      linkRatio: 1,
      latencyMs: 1,
      ripple: 0.006,
      lateMs: 0,
    }
  }

  /** Work comes and goes by itself: minutes of it, with pauses. */
  live(seconds: number): void {
    this.#seconds += seconds
    const { physics } = this
    if (this.#seconds > this.#busyUntil) {
      const isBusy = physics.load > 0.5
      physics.load = isBusy ? this.#random.between(0.02, 0.1) : this.#random.between(0.8, 1)
      this.#busyUntil = this.#seconds + (isBusy ? this.#random.between(10, 120) : this.#random.between(120, 1_500))
    }
    const watts = this.#idleWatts + physics.load * (this.#loadWatts - this.#idleWatts)
    // A good cooler holds full load some 20 K below the limit.
    const rise = ((this.#limit - 20 - this.#ambient) * watts) / this.#loadWatts
    // Above the limit the card halves its clocks.
    const throttled = physics.celsius > this.#limit ? 0.5 : 1
    const settles = this.#ambient + (throttled * rise) / physics.fan
    const share = 1 - Math.exp(-seconds / (this.#tau / Math.sqrt(physics.fan)))
    physics.celsius += share * (settles - physics.celsius)
    // A background of one corrected error in a few minutes is an ordinary cable.
    physics.correctable += poisson(this.#random, seconds / 400)
    physics.latencyMs = this.#probeMs * (1 + 1.5 * physics.load) * Math.exp(gauss(this.#random) * 0.15)
    physics.lateMs = 0
  }

  read(atMs: number): HealthSample {
    const { physics } = this
    const watts = this.#idleWatts + physics.load * (this.#loadWatts - this.#idleWatts)
    return {
      atMs,
      temperatureCelsius: Math.round(physics.celsius + gauss(this.#random) * 0.4),
      temperatureLimitCelsius: this.#limit,
      powerWatts: watts * (1 + gauss(this.#random) * physics.ripple),
      correctableErrors: physics.correctable,
      nonfatalErrors: physics.nonfatal,
      fatalErrors: 0,
      linkRatio: physics.linkRatio,
      probeLatencyMs: physics.latencyMs,
    }
  }
}

type Script = (physics: Physics, atMs: number) => void | 'died'

/** What happens besides ordinary life; `failsAt` is when it ends badly. */
const scripts: Readonly<Record<Family, (random: Random, failsAt: number) => Script>> = {
  'cable-wiggle': (random, failsAt) => {
    const from = failsAt - random.between(40, 600) * 1_000
    const rate = random.between(0.4, 8)
    const duty = random.between(0.4, 0.9)
    return (physics, atMs) => {
      if (atMs < from || random.next() > duty) return
      physics.correctable += poisson(random, rate * (intervalMs / 1_000))
    }
  },
  /** A fan that runs down; the card cuts its own power some way beyond its limit. */
  'thermal-ramp': (random, failsAt) => {
    const from = failsAt - random.between(200, 500) * 1_000
    const stoppedAt = from + random.between(30, 240) * 1_000
    const least = random.between(0.15, 0.25)
    const beyond = random.between(9, 14)
    return (physics, atMs) => {
      if (atMs < from) return undefined
      physics.load = Math.max(physics.load, 0.9)
      physics.fan = Math.max(least, 1 - (1 - least) * ((atMs - from) / (stoppedAt - from)))
      return physics.celsius > physics.limit + beyond ? 'died' : undefined
    }
  },
  'supply-sag': (random, failsAt) => {
    const from = failsAt - random.between(40, 300) * 1_000
    const ripple = random.between(0.04, 0.12)
    return (physics, atMs) => {
      if (atMs < from) return
      physics.load = 1
      physics.ripple = ripple
      if (random.next() < 0.1) physics.correctable += 1
    }
  },
  'retrain-flapping': (random, failsAt) => {
    const from = failsAt - random.between(40, 400) * 1_000
    const chance = random.between(0.2, 0.5)
    return (physics, atMs) => {
      if (atMs < from) return
      physics.load = Math.max(physics.load, 0.8)
      if (random.next() < chance) physics.linkRatio = physics.linkRatio === 1 ? 0.5 : 1
      if (random.next() < chance) physics.correctable += random.integer(4)
    }
  },
  'driver-hang': (random, failsAt) => {
    const from = failsAt - random.between(40, 200) * 1_000
    const growth = random.between(4, 30)
    // One case in three is announced by an error minutes before (Xid 32 at −8.5 min and −72 s).
    const hints = random.next() < 0.33 ? [failsAt - 510_000, failsAt - 72_000] : []
    return (physics, atMs) => {
      for (const hint of hints) if (atMs >= hint && atMs < hint + intervalMs) physics.nonfatal += 1
      if (atMs < from) return
      const progress = (atMs - from) / (failsAt - from)
      physics.latencyMs *= 1 + growth * progress
      physics.lateMs = random.between(0, 3_500) * progress
    }
  },
  yank: () => () => undefined,
  quiet: () => () => undefined,
  /** Load in steps and boosts, so temperatures and latencies jump. */
  'bursty-load': (random) => (physics) => {
    if (random.next() < 0.08) physics.load = random.pick([0.05, 0.5, 0.85, 1])
    if (random.next() < 0.02) physics.latencyMs *= random.between(2, 4)
  },
  /** Suspends and resumes: an error burst in one reading, and a link that slows down when nothing runs. */
  sleepy: (random) => (physics) => {
    if (random.next() < 1 / 240) physics.correctable += 1 + random.integer(12)
    physics.linkRatio = physics.load < 0.2 ? 0.25 : 1
  },
  /** Dust: it runs at its limit all day. */
  'hot-but-throttled': () => (physics) => {
    physics.fan = 0.55
  },
  /** The tunnelled port shows x1 at 2.5 GT/s whatever it carries (all-ways-egpu issue 37). */
  'fictional-link': () => (physics) => {
    physics.linkRatio = 0.06
  },
  /** A cable that was never good: an error in half a minute; latency with the load of others. */
  'noisy-neighbour': (random) => {
    let others = 1
    return (physics) => {
      physics.correctable += poisson(random, intervalMs / 30_000)
      if (random.next() < 0.02) others = random.between(1, 2.5)
      physics.latencyMs *= others
    }
  },
  /** A host that compiles something: now and then whoever reads the sensors has to wait for its turn. */
  'busy-host': (random) => (physics) => {
    if (random.next() < 0.01) physics.lateMs = random.between(100, 2_000)
  },
}

/** Knuth's; for small means. */
function poisson(random: Random, mean: number): number {
  const least = Math.exp(-mean)
  let count = -1
  for (let product = 1; product > least; product *= random.next()) count += 1
  return count
}

/** Box and Muller's. */
function gauss(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())
}
