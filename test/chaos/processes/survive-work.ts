import { seededRandom } from '@egpu/driver-sim'
import { directoryStore, survive } from '@egpu/migrator/node'
import { mixed } from '../../../packages/migrator/test/helpers/mixer.ts'
import { steps, words } from '../../../packages/migrator/test/helpers/short-work.ts'
import { inOwnDirectory } from './own-directory.ts'
import type { Work } from './work.ts'

const reference = mixed(words, steps)

/** One work in a child of `survive` that is killed at random, again and again; its parent has the checkpoints. */
export async function surviveWork(seed: number, mostKills: number): Promise<Work> {
  return inOwnDirectory(async (directory) => {
    const random = seededRandom(seed)
    await using store = directoryStore(directory, { chunkBytes: 4_096 })
    const kills: string[] = []
    let armed: NodeJS.Timeout | undefined
    const run = survive(new URL('./short-work.js', import.meta.url), {
      store,
      // What is tested is the loss of processes, not the end of patience.
      maxDeaths: 1_000,
      onDeath: () => {
        kills.push('child of survive')
        armed = undefined
      },
      // Any event may be the last thing a process does.
      onEvent: () => {
        if (kills.length >= mostKills || armed !== undefined) return
        armed = setTimeout(
          () => {
            if (run.pid !== undefined) process.kill(run.pid, 'SIGKILL')
          },
          random.between(0, 60),
        )
      },
    })
    const result = await run.finished.catch((error: unknown) => String(error))
    clearTimeout(armed)
    await run.close()
    const isIdentical = result === reference
    const problems = isIdentical ? [] : [`${String(result)} instead of ${reference}`]
    return { seed, kills, isIdentical, doubleOwners: 0, lost: 0, tornLoads: 0, problems }
  })
}
