import { createHash } from 'node:crypto'
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '@egpu/core'
import type { OpenTarget, SavedState } from '@egpu/core'
import { Mixer, mixed } from '../../../packages/migrator/test/helpers/mixer.ts'
import type { MixerOptions } from '../../../packages/migrator/test/helpers/mixer.ts'
import type { FromLife } from './protocol.ts'

export interface CheckedMixerOptions extends Pick<MixerOptions, 'id' | 'stepMs' | 'fault'> {
  readonly words: number
  readonly steps: number
  /** Where the ledger is. */
  readonly directory: string
  readonly say: (message: FromLife) => void
}

/**
 * Work in real time that notes each step in a ledger, and holds every state that it is to go on from against the one that
 * belongs to its progress.
 */
export class CheckedMixer extends Mixer {
  readonly #words: number
  readonly #say: (message: FromLife) => void

  constructor({ directory, say, ...options }: CheckedMixerOptions) {
    // Two processes at work at once would take turns in the ledger.
    const onStep = (progress: number): void => appendFileSync(join(directory, 'ledger'), `${process.pid} ${progress}\n`)
    super({ ...options, clock: systemClock, onStep })
    this.#words = options.words
    this.#say = say
  }

  override async restore(
    target: OpenTarget,
    state: SavedState | undefined,
    options: { signal?: AbortSignal | undefined },
  ): Promise<void> {
    if (state !== undefined) await this.#check(state)
    await super.restore(target, state, options)
    this.#say({ type: 'resumed', progress: this.progress })
  }

  async #check(state: SavedState): Promise<void> {
    const hash = createHash('sha256')
    for await (const piece of state.read('words')) hash.update(piece)
    if (hash.digest('hex') === mixed(this.#words, state.progress)) return
    this.#say({ type: 'torn', message: `what was saved at ${state.progress} is not what belongs there` })
  }
}
