import { dawnSource } from './dawn-source.ts'
import { givenSource } from './given-source.ts'
import type { AdapterSource } from './source.ts'

/** The `GPU` that was handed over, else the browser's or Deno's own, else the package `webgpu`. */
export function chooseSource(options: {
  readonly gpu?: GPU | undefined
  readonly dawnFlags?: readonly string[] | undefined
}): AdapterSource {
  const present = options.gpu ?? (globalThis as { readonly navigator?: { readonly gpu?: GPU } }).navigator?.gpu
  return present === undefined ? dawnSource(options.dawnFlags ?? []) : givenSource(present)
}
