import { join } from 'node:path'
import { readQuietly } from '../quiet-files.ts'

/** Errors that Advanced Error Reporting counted since the devices appeared. */
export interface ErrorCounts {
  readonly correctable?: number | undefined
  readonly nonfatal?: number | undefined
  readonly fatal?: number | undefined
}

/** Attribute and the line in it that has the sum (Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats). */
const counters = {
  correctable: ['aer_dev_correctable', 'TOTAL_ERR_COR'],
  nonfatal: ['aer_dev_nonfatal', 'TOTAL_ERR_NONFATAL'],
  fatal: ['aer_dev_fatal', 'TOTAL_ERR_FATAL'],
} as const

/** One total out of a counter attribute: `TOTAL_ERR_COR 3` is its last line. */
export function parseTotal(text: string | undefined, name: string): number | undefined {
  const value = new RegExp(`^${name} (\\d{1,15})$`, 'm').exec(text ?? '')?.[1]
  return value === undefined ? undefined : Number(value)
}

/**
 * Sums the counters of several devices: the GPU and every port above it, because a bad cable shows at whichever end
 * noticed. The kernel keeps these numbers in memory, so reading them wakes nothing. A kind that no device counts is
 * absent.
 */
export function countErrors(directories: readonly string[]): ErrorCounts {
  const sum = (kind: keyof typeof counters): number | undefined => {
    const [attribute, total] = counters[kind]
    const values = directories
      .map((directory) => parseTotal(readQuietly(join(directory, attribute)), total))
      .filter((value) => value !== undefined)
    return values.length === 0 ? undefined : values.reduce((a, b) => a + b, 0)
  }
  return { correctable: sum('correctable'), nonfatal: sum('nonfatal'), fatal: sum('fatal') }
}
