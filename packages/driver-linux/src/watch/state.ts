import type { DeviceObservation, DriverEvent, DriverSnapshot, ResyncReason } from '@egpu/core/driver'
import type { Enclosure } from '@egpu/core'
import type { Sequence } from './sequence.ts'
import { freshSequence } from './sequence.ts'
import type { SourceMessage } from './source.ts'

/** One look at everything, with what ties its devices and boxes to the kernel's events. */
export interface View {
  readonly snapshot: DriverSnapshot
  /** Path below `/sys` of each device, by key. */
  readonly devpaths: ReadonlyMap<string, string>
  /** Boxes by the name of their router: `0-1`. */
  readonly routers: ReadonlyMap<string, RouterView>
  /** `/sys/kernel/uevent_seqnum` before the look began. */
  readonly seqnum?: number | undefined
}

export interface RouterView {
  readonly enclosureId: string
  /** Keys of the GPUs that go when it goes, those in boxes chained behind it included. */
  readonly devices: readonly string[]
}

/** What the watcher has to react to. Times are on its clock. */
export type WatchMessage =
  | { readonly type: 'source'; readonly message: SourceMessage }
  | { readonly type: 'looked'; readonly view: View }
  /** The slot above these devices is empty. */
  | { readonly type: 'absent'; readonly keys: readonly string[] }
  /** A safe removal of this device begins, so that its going is no surprise, or has failed. */
  | { readonly type: 'removal-expected'; readonly key: string; readonly expected: boolean }
  | { readonly type: 'resync'; readonly reason: ResyncReason }
  /** Nothing but time passed. */
  | { readonly type: 'time' }

/** What the watcher has to do. */
export type WatchEffect =
  | { readonly do: 'emit'; readonly event: DriverEvent }
  | { readonly do: 'look' }
  /** Is there still a card in the slots above these devices? The answer is an `absent` message, or nothing. */
  | { readonly do: 'check-presence'; readonly keys: readonly string[] }

export interface TrackedDevice {
  readonly observation: DeviceObservation
  readonly devpath: string
  /** `leaving` may still be called off; `lost` and `wedged` end with the function's removal or a new driver. */
  readonly phase: 'here' | 'leaving' | 'lost' | 'wedged'
  /** How it is known that nothing can reach the card any more: its box, its tunnel or its slot. */
  readonly cutBy?: 'router' | 'tunnel' | 'slot' | undefined
  /** It was there when the watch began. */
  readonly fromStart?: boolean | undefined
  /** When its kernel driver let go. */
  readonly driverGoneAtMs?: number | undefined
  /** Why it is wedged, and what to do. */
  readonly wedge?: Wedge | undefined
  /** When it counts as wedged, if the kernel has not removed it by then. */
  readonly wedgedAtMs?: number | undefined
}

export interface Wedge {
  readonly reason: string
  readonly advice: string
}

export interface WatchState {
  readonly started: boolean
  readonly options: WatchTimes
  readonly sequence: Sequence
  readonly devices: ReadonlyMap<string, TrackedDevice>
  readonly enclosures: ReadonlyMap<string, Enclosure>
  readonly routers: ReadonlyMap<string, RouterView>
  /** Findings of the last look, without the watcher's own. */
  readonly looked: DriverSnapshot['findings']
  /** What was emitted last, for comparison. */
  readonly findings: string
  /** When to look; `undefined` while there is no reason to. */
  readonly lookAtMs?: number | undefined
  readonly looking: boolean
  readonly lookedAtMs: number
  /** The next look is answered with a `resync`, for this reason. */
  readonly resync?: { readonly reason: ResyncReason; readonly atMs: number; readonly latestMs: number } | undefined
  /**
   * Devpaths and router names that went, and until when a look that shows them all the same is not believed: the kernel
   * says `remove` just before it takes the directory away, and a look takes time. Their `add` ends it.
   */
  readonly departed: ReadonlyMap<string, number>
  readonly expected: ReadonlySet<string>
  /** Times at which each enclosure went, newest last. */
  readonly enclosureGone: ReadonlyMap<string, readonly number[]>
  readonly notes: readonly WatchNote[]
}

/** Something the watcher noticed that becomes a finding. */
export interface WatchNote {
  readonly code: 'link-retrained' | 'enclosure-flapping' | 'boot-tunnel-reset' | 'pcie-recovery-failed'
  readonly enclosureId?: string | undefined
  readonly deviceId?: string | undefined
  readonly count?: number | undefined
  readonly atMs: number
}

export interface WatchTimes {
  /** From the first event of a burst to the look; a plug sends dozens. */
  readonly settleMs: number
  /** Between two looks while events keep coming. */
  readonly spacingMs: number
  /** After losing messages: how quiet it must be before the `resync`, and the longest wait for that. */
  readonly quietMs: number
  readonly longestStormMs: number
  /** For how long a look cannot bring back what an event took away. */
  readonly departedMs: number
  /** A device whose driver was unbound and which is still there after this time stays. */
  readonly unboundMs: number
  /** A device without cable that is still listed after this time is wedged. */
  readonly ghostMs: number
  /** The same box back within this time was reset, not re-plugged. */
  readonly retrainMs: number
  /** This many departures of one box within this time are a flapping link. */
  readonly flapMs: number
  readonly flapCount: number
  /** Until when, on the watcher's clock, the machine counts as booting. */
  readonly bootUntilMs: number
}

/** Ten seconds until a ghost is called wedged: a tree with two switches took the kernel 8.4 s to take down (QEMU). */
export const defaultTimes: WatchTimes = {
  settleMs: 15,
  spacingMs: 50,
  quietMs: 250,
  longestStormMs: 30_000,
  departedMs: 1_000,
  unboundMs: 500,
  ghostMs: 10_000,
  retrainMs: 2_000,
  flapMs: 60_000,
  flapCount: 3,
  bootUntilMs: Number.NEGATIVE_INFINITY,
}

export function initialState(options: Partial<WatchTimes> = {}): WatchState {
  return {
    started: false,
    options: { ...defaultTimes, ...options },
    sequence: freshSequence,
    devices: new Map(),
    enclosures: new Map(),
    routers: new Map(),
    looked: [],
    findings: '',
    looking: false,
    lookedAtMs: Number.NEGATIVE_INFINITY,
    departed: new Map(),
    expected: new Set(),
    enclosureGone: new Map(),
    notes: [],
  }
}

/** When a `time` message is due next; `undefined` when only events can change anything. */
export function nextDueMs(state: WatchState): number | undefined {
  const due = [
    state.looking ? undefined : state.lookAtMs,
    ...state.sequence.missing.map(({ untilMs }) => untilMs),
    ...[...state.devices.values()].map(({ wedgedAtMs }) => wedgedAtMs),
  ].filter((time) => time !== undefined)
  return due.length === 0 ? undefined : Math.min(...due)
}
