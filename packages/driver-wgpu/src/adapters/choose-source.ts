import { dawnSource } from './dawn-source.ts'
import { givenSource } from './given-source.ts'
import type { AdapterSource } from './source.ts'

/** Where adapters come from, and under which conditions. */
export interface SourceOptions {
  readonly gpu?: GPU | undefined
  readonly dawnFlags?: readonly string[] | undefined
  readonly cpuFallback?: boolean | undefined
  readonly driverTimeoutMs?: number | undefined
}

/** A cold driver takes about a second; one that waits for a dead GPU never answers. */
const patienceMs = 20_000

/** The `GPU` that was handed over, else the browser's or Deno's own, else the package `webgpu`. */
export function chooseSource(options: SourceOptions): AdapterSource {
  const present = options.gpu ?? (globalThis as { readonly navigator?: { readonly gpu?: GPU } }).navigator?.gpu
  if (present !== undefined) return givenSource(present)
  const timeoutMs = options.driverTimeoutMs ?? patienceMs
  if (!(timeoutMs > 0)) throw new TypeError(`driverTimeoutMs must be a number above 0, not ${timeoutMs}`)
  return dawnSource({ flags: options.dawnFlags ?? [], cpuFallback: options.cpuFallback ?? true, timeoutMs })
}
