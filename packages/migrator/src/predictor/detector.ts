import type { HealthSample } from '@egpu/core'

/** What one signal says about a device: how likely it is that it fails soon, and in how long if that can be told. */
export interface Sign {
  /** 0 to 1. */
  readonly probability: number
  readonly leadMs?: number | undefined
}

/** Follows one signal of one device. */
export interface Detector {
  readonly signal: string
  /** Takes a reading. `undefined` while the signal is not there: unknown says nothing. */
  read(sample: HealthSample): Sign | undefined
}

export const allQuiet: Sign = { probability: 0 }
