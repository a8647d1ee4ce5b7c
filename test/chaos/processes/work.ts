import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { seededRandom } from '@egpu/driver-sim'
import { mixed } from '../../../packages/migrator/test/helpers/mixer.ts'
import type { Kill, KillPlan } from './kill-plan.ts'
import { LifeProcess } from './life-process.ts'
import type { LifeEnd } from './life-process.ts'
import { inOwnDirectory } from './own-directory.ts'
import { life as task } from './protocol.ts'
import { turnsIn, Witness } from './witness.ts'

/** What became of one work. */
export interface Work {
  readonly seed: number
  readonly kills: readonly string[]
  readonly isIdentical: boolean
  readonly doubleOwners: number
  readonly lost: number
  readonly tornLoads: number
  readonly problems: readonly string[]
}

/** In one of so many works a second process waits for the first to die, and goes on in its place. */
const standByEvery = 3

const reference = mixed(task.words, task.steps)

/**
 * One work that takes several processes, each of which is killed and leaves only a store and a journal. Seen from outside:
 * what each process said, and a ledger in which every step is noted by the process that did it.
 */
export async function takeLives(seed: number, mostKills: number, plan: KillPlan): Promise<Work> {
  return inOwnDirectory(async (directory) => {
    const random = seededRandom(seed)
    const witness = new Witness()
    const kills: string[] = []
    const standByAt = seed % standByEvery === 0 ? 1 + random.integer(mostKills - 1) : -1
    while (witness.result === undefined && witness.problems.length === 0) {
      const kill = kills.length < mostKills ? plan.next(!witness.hasCheckpoint, random) : undefined
      const end = await live(directory, kill, witness, kills.length === standByAt)
      if (kill !== undefined) plan.note(kill, end === 'killed')
      if (kill !== undefined && end === 'killed') kills.push(kill.how)
      if (end === 'finished') witness.problems.push(...(await leftIn(directory)))
      if (typeof end === 'object') witness.problems.push(end.problem)
    }
    if (witness.result !== reference) witness.problems.push(`${witness.result} instead of ${reference}`)
    return {
      seed,
      kills,
      isIdentical: witness.result === reference,
      doubleOwners: witness.doubleOwners + (await turnsIn(directory)),
      lost: witness.lost,
      tornLoads: witness.tornLoads,
      problems: witness.problems,
    }
  })
}

/** One process, and sometimes one more that is to work only once the first is dead. */
async function live(directory: string, kill: Kill | undefined, witness: Witness, isWatched: boolean): Promise<LifeEnd> {
  const life = new LifeProcess(directory, kill?.how === 'at a point' ? kill.at : undefined)
  let standBy: LifeProcess | undefined
  life.onMessage((message) => {
    witness.hear(message)
    if (!isWatched || standBy !== undefined || message.type !== 'resumed') return
    standBy = new LifeProcess(directory)
    standBy.onMessage((heard) => witness.hear(heard))
  })
  const timer = kill?.how === 'at random' ? setTimeout(() => life.kill(), kill.afterMs) : undefined
  const end = await life.ended
  clearTimeout(timer)
  if (standBy === undefined) return end
  if (end !== 'killed' || witness.result !== undefined) standBy.kill()
  const after = await standBy.ended
  return typeof after === 'object' ? after : end
}

/** What a process that ended in order should have removed. */
async function leftIn(directory: string): Promise<readonly string[]> {
  const store = join(directory, 'store')
  const files = [...(await readdir(store)), ...(await readdir(join(store, 'workloads', 'w-job')))]
  const extra = files.filter((name) => name !== 'workloads' && name !== 'counters')
  return extra.map((name) => `${name} was left behind by finished work`)
}
