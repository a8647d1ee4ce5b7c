import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { seededRandom } from '@egpu/driver-sim'
import { directoryStore, survive } from '@egpu/migrator/node'
import { mixed } from '../../packages/migrator/test/helpers/mixer.ts'
import { steps, words } from '../../packages/migrator/test/helpers/short-work.ts'

export interface ProcessOutcome {
  /** Children that were killed with SIGKILL. */
  readonly kills: number
  readonly works: number
  /** Works that ended with the result of an undisturbed one. */
  readonly identical: number
  readonly failures: readonly { readonly seed: number; readonly message: string }[]
}

/** As often one work's process is killed before it may finish. */
const killsPerWork = 5

const module = new URL('../../packages/migrator/test/helpers/short-work.ts', import.meta.url)

/** Real processes killed at random moments, from before their first checkpoint to after their last, until so many are. */
export async function processes({
  first,
  seeds,
  onProgress,
}: {
  readonly first: number
  readonly seeds: number
  readonly onProgress?: (done: number) => void
}): Promise<ProcessOutcome> {
  const failures: { seed: number; message: string }[] = []
  const reference = mixed(words, steps)
  let kills = 0
  let works = 0
  let identical = 0
  for (let seed = first; kills < seeds; seed += 1) {
    works += 1
    const { result, deaths } = await oneWork(seed, Math.min(killsPerWork, seeds - kills)).catch((error: unknown) => ({
      result: String(error),
      deaths: 1,
    }))
    for (let i = 0; i < deaths; i += 1) onProgress?.((kills += 1))
    if (result === reference) identical += 1
    else failures.push({ seed, message: `${String(result)} instead of ${reference}` })
  }
  return { kills, works, identical, failures }
}

/** One work in a directory of its own, whose process is killed at a random time after it has shown life. */
async function oneWork(seed: number, kills: number): Promise<{ result: unknown; deaths: number }> {
  const random = seededRandom(seed)
  const directory = await mkdtemp(join(tmpdir(), 'egpu-chaos-'))
  const store = directoryStore(directory, { chunkBytes: 4_096 })
  let deaths = 0
  let armed: NodeJS.Timeout | undefined
  const run = survive(module, {
    store,
    // What is tested is the loss of processes, not the end of patience.
    maxDeaths: 1_000,
    onDeath: () => {
      deaths += 1
      armed = undefined
    },
    // Any event may be the last thing a process does.
    onEvent: () => {
      if (deaths >= kills || armed !== undefined) return
      armed = setTimeout(
        () => {
          if (run.pid !== undefined) process.kill(run.pid, 'SIGKILL')
        },
        random.between(0, 60),
      )
    },
  })
  try {
    return { result: await run.finished, deaths }
  } finally {
    clearTimeout(armed)
    await run.close()
    await store.close()
    await rm(directory, { recursive: true, force: true })
  }
}
