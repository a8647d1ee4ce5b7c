/** Which seeds to run, one after another. */
export interface SeedOptions {
  /** Default 1. */
  readonly first?: number
  readonly seeds: number
  /** Hears how many are done. */
  readonly onProgress?: (done: number) => void
}
