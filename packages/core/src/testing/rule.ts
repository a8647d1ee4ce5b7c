import type { Bench } from './bench.ts'

/** One rule of the contract, checked on a rig of its own. Fails by throwing. */
export interface Rule {
  readonly name: string
  check(bench: Bench): Promise<void>
}

/** Rules about one thing. */
export interface Theme {
  readonly name: string
  readonly rules: readonly Rule[]
}
