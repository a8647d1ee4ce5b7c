import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FromLife } from './protocol.ts'

/** Holds what processes say against what they said before. */
export class Witness {
  result: string | undefined
  doubleOwners = 0
  lost = 0
  tornLoads = 0
  readonly problems: string[] = []
  #promised = 0
  #isRemembered = false

  get hasCheckpoint(): boolean {
    return this.#promised > 0
  }

  hear(message: FromLife): void {
    switch (message.type) {
      case 'born':
        if (this.#isRemembered && !message.isRemembered) this.#lose('the journal has forgotten the work')
        return
      case 'remembered':
        this.#isRemembered = message.isSo
        return
      case 'resumed': {
        const { progress } = message
        if (progress < this.#promised) this.#lose(`went on from ${progress}, though ${this.#promised} had been saved`)
        return
      }
      case 'saved':
        this.#promised = Math.max(this.#promised, message.progress)
        return
      case 'torn':
        this.tornLoads += 1
        this.problems.push(message.message)
        return
      case 'finished':
        this.result ??= message.result
        this.doubleOwners += message.doubleOwners
    }
  }

  #lose(problem: string): void {
    this.lost += 1
    this.problems.push(problem)
  }
}

/** How often a process did another step after a different one had begun to work. */
export async function turnsIn(directory: string): Promise<number> {
  const lines = (await readFile(join(directory, 'ledger'), 'utf8').catch(() => '')).trim().split('\n')
  const pids = lines.map((line) => line.split(' ')[0])
  const turns = pids.filter((pid, i) => pid !== pids[i - 1])
  return turns.length - new Set(turns).size
}
