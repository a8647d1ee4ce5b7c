import type { TrainedLanes } from '../types/link.ts'
import { packetEfficiency } from './pcie.ts'
import { thunderboltTable, type ThunderboltSpeed } from './thunderbolt.ts'
import { requirePositive } from './validate.ts'

/**
 * Share of a Thunderbolt or USB4 link that tunnels may take: Linux hands out 36 of 40 Gb/s
 * (`drivers/thunderbolt/usb4.c`, `drivers/thunderbolt/tb.c`).
 */
const tunnelShare = 0.9

/** Framing, header and checksum of each tunnelled packet, in bytes: as on a PCI Express 3.0 link. */
const tunnelOverheadBytes = 24

/** Lanes times rate per lane, in Gb/s. Throws `TypeError` or `RangeError` for numbers no cable has. */
export function trainedGbps(trained: TrainedLanes): number {
  requirePositive('lanes', trained.lanes)
  requirePositive('gbpsPerLane', trained.gbpsPerLane)
  if (!Number.isInteger(trained.lanes) || trained.lanes > 3) {
    throw new RangeError(`a Thunderbolt link has 1 to 3 lanes in a direction, got ${trained.lanes}`)
  }
  return trained.lanes * trained.gbpsPerLane
}

/**
 * What a copy gets through a trained Thunderbolt or USB4 cable in one direction, in GB/s: lanes × rate × 0.9 × packet
 * efficiency, and no more than the controllers of the generation in `sticker` have ever been seen to pass on. Without a
 * `sticker` it is the upper bound that the lanes allow; without `trained` it is `undefined`.
 */
export function thunderboltPayloadGBps(
  trained: TrainedLanes | undefined,
  sticker?: ThunderboltSpeed,
): number | undefined {
  if (trained === undefined) return undefined
  const lanesAllow = (trainedGbps(trained) * tunnelShare * packetEfficiency(tunnelOverheadBytes)) / 8
  return Math.min(lanesAllow, controllerLimitGBps(sticker) ?? lanesAllow)
}

/** The most that controllers of this generation pass on, in GB/s. */
export function controllerLimitGBps(sticker: ThunderboltSpeed | undefined): number | undefined {
  return sticker === undefined ? undefined : thunderboltTable[sticker].rangeGBps?.high
}
