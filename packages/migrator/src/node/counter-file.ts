import { randomBytes } from 'node:crypto'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { mostToken } from './manifest.ts'
import { readWhole, replaceFile } from './store-fs.ts'
import type { StoreFs } from './store-fs.ts'

/** The highest numbers that were given to writers and to checkpoints of a workload. */
export interface Counters {
  readonly token: number
  readonly generation: number
}

/** The digits of a manifest's name. */
const mostGeneration = 999_999_999_999_999

const none: Counters = { token: 0, generation: 0 }

/**
 * The file `counters` of a workload. No number is given twice, whatever becomes of it: the numbers that were given here, and
 * `least`, those that the checkpoints there are carry, count too.
 */
export class CounterFile {
  readonly #fs: StoreFs
  readonly #path: string
  #given = none

  constructor(fs: StoreFs, directory: string) {
    this.#fs = fs
    this.#path = `${directory}/counters`
  }

  async read(least: Counters): Promise<Counters> {
    return this.#raised(await this.#stored(), least)
  }

  async write(counters: Counters): Promise<void> {
    const text = Buffer.from(`${counters.token} ${counters.generation}\n`)
    await replaceFile(this.#fs, this.#path, text, randomBytes(8).toString('hex'))
    this.#given = counters
  }

  /** Before the checkpoint that carries a generation goes, so that it is not used again. */
  async keepGeneration(least: Counters): Promise<void> {
    const stored = await this.#stored()
    const counters = this.#raised(stored, least)
    if (counters.generation > stored.generation) await this.write(counters)
  }

  #raised(stored: Counters, least: Counters): Counters {
    this.#given = {
      token: Math.max(stored.token, least.token, this.#given.token),
      generation: Math.max(stored.generation, least.generation, this.#given.generation),
    }
    return this.#given
  }

  async #stored(): Promise<Counters> {
    try {
      const bytes = await readWhole(this.#fs, this.#path, 64)
      const [token = -1, generation = -1] = Buffer.from(bytes ?? [])
        .toString('latin1')
        .split(' ')
        .map(Number)
      if (isCount(token, mostToken) && isCount(generation, mostGeneration)) return { token, generation }
    } catch (error) {
      // Altered, or no file any more.
      if (!(error instanceof RangeError) && !EGpuError.is(error, EGpuErrorCode.CheckpointCorrupt)) throw error
    }
    return none
  }
}

/** What is saved under a number that cannot be a name would be lost. */
export function generationAfter({ generation }: Counters): number {
  if (generation < mostGeneration) return generation + 1
  const message = `there is no generation after ${generation}; use another store, or remove the checkpoint of that number`
  throw new EGpuError(EGpuErrorCode.CheckpointFailed, message)
}

function isCount(value: number, most: number): boolean {
  return Number.isSafeInteger(value) && value >= 0 && value <= most
}
