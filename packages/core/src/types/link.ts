import type { ThunderboltSpeed } from '../bandwidth/thunderbolt.ts'

/** A rate in each direction, in gigabytes (10^9 bytes) per second, as a copy would see it. */
export interface DuplexGBps {
  readonly toDevice?: number | undefined
  readonly fromDevice?: number | undefined
}

/** One direction of a trained Thunderbolt/USB4 link. */
export interface TrainedLanes {
  readonly lanes: number
  /** Per lane, in gigabits per second: 10, 20 or 40. */
  readonly gbpsPerLane: number
}

/** One PCI Express hop between the root port and the GPU. */
export interface PcieHop {
  /** The device at the lower end: a PCI address, a registry path. */
  readonly id: string
  readonly name?: string | undefined
  /**
   * `virtual` hops are PCI Express tunnelled through a cable: the speed they report (2.5 GT/s) is fiction and never
   * counts. `internal` hops are switches on the card itself.
   */
  readonly kind: 'real' | 'virtual' | 'internal'
  readonly lanes?: number | undefined
  readonly gtPerSecond?: number | undefined
  readonly maxLanes?: number | undefined
  readonly maxGtPerSecond?: number | undefined
  /** What this hop lets through, in GB/s, when its numbers are real. */
  readonly effectiveGBps?: number | undefined
}

/** The hop or cable that limits the whole path. */
export interface Bottleneck {
  /** `cable`, or the id of a hop. */
  readonly at: string
  readonly effectiveGBps: number
  readonly reason: string
}

/** A link that runs below what both of its ends can do. */
export interface LinkDowngrade {
  readonly at: string
  readonly expected: string
  readonly actual: string
}

/** What connects the GPU to the host: what is printed on the box, what was trained, what it amounts to. */
export interface LinkReport {
  /** The generation label both ends could claim. */
  readonly sticker?: ThunderboltSpeed | undefined
  /** What the cable trained to; the two directions differ in asymmetric mode. */
  readonly trained?:
    | { readonly toDevice?: TrainedLanes | undefined; readonly fromDevice?: TrainedLanes | undefined }
    | undefined
  /** From the root port down to the GPU. */
  readonly hops: readonly PcieHop[]
  readonly bottleneck?: Bottleneck | undefined
  /** Estimated from the numbers above. */
  readonly effectiveGBps?: DuplexGBps | undefined
  /** Seen by a probe that verified its bytes arrived. */
  readonly measuredGBps?: DuplexGBps | undefined
  readonly downgrade?: LinkDowngrade | undefined
}
