import type { Options } from 'tsup'

/** What every package builds with: ESM for Node 20, declarations, `node:` imports kept (tsup strips them by default). */
export function library(entry: Record<string, string>, options: Options = {}): Options {
  return {
    entry,
    format: 'esm',
    target: 'node20',
    dts: true,
    sourcemap: true,
    clean: true,
    removeNodeProtocol: false,
    ...options,
  }
}
