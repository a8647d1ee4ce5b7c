import { join } from 'node:path'
import { seededRandom } from '@egpu/driver-sim'
import { directoryStore, survive } from '@egpu/migrator/node'
import { mixed } from '../../../packages/migrator/test/helpers/mixer.ts'
import { inOwnDirectory } from './own-directory.ts'
import { survived } from './protocol.ts'
import { saidIn, sayIn } from './said.ts'
import { turnsIn, Witness } from './witness.ts'
import type { Work } from './work.ts'

const reference = mixed(survived.words, survived.steps)

/** One work in a child of `survive` that is killed at random, again and again; its parent has the checkpoints. */
export async function surviveWork(seed: number, mostKills: number): Promise<Work> {
  return inOwnDirectory(async (directory) => {
    const random = seededRandom(seed)
    await using store = directoryStore(join(directory, 'store'), { chunkBytes: 4_096 })
    const kills: string[] = []
    let armed: NodeJS.Timeout | undefined
    const say = sayIn(directory)
    const module = new URL('./short-work.js', import.meta.url)
    module.searchParams.set('directory', directory)
    const run = survive(module, {
      store,
      // What is tested is the loss of processes, not the end of patience.
      maxDeaths: 1_000,
      onDeath: () => {
        kills.push('child of survive')
        armed = undefined
      },
      // Any event may be the last thing a process does.
      onEvent: (event) => {
        if (event.type === 'checkpoint-saved') say({ type: 'saved', progress: event.progress })
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
    const witness = new Witness()
    for (const message of await saidIn(directory)) witness.hear(message)
    const problems = isIdentical ? witness.problems : [...witness.problems, `${String(result)} instead of ${reference}`]
    const doubleOwners = witness.doubleOwners + (await turnsIn(directory))
    return { seed, kills, isIdentical, doubleOwners, lost: witness.lost, tornLoads: witness.tornLoads, problems }
  })
}
