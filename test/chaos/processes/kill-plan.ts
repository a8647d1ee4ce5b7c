import type { Random } from '@egpu/driver-sim'
import { LifeProcess } from './life-process.ts'
import { inOwnDirectory } from './own-directory.ts'
import type { KillAt } from './protocol.ts'

/** How a process is to end. */
export type Kill =
  | { readonly how: 'at a point'; readonly at: KillAt }
  | { readonly how: 'at random'; readonly afterMs: number }

type Visits = Readonly<Record<string, number>>

/** A point that some life never comes by, a branch that only a race takes, is given up after so many tries. */
const mostTries = 8

/** So many of the kills come at random, at any moment of a process. */
const randomShare = 0.35

/** When which process is killed, so that no point is left out. */
export class KillPlan {
  /** In a process that begins afresh, and in one that goes on from a checkpoint that another left. */
  readonly #visits: { readonly first: Visits; readonly later: Visits }
  readonly #lifeMs: number
  readonly #tries = new Map<string, number>()
  readonly #queue: string[]
  readonly #killedAt = new Set<string>()
  readonly #missed: string[] = []
  #pending = 0

  private constructor(first: Visits, later: Visits, lifeMs: number) {
    this.#visits = { first, later }
    this.#lifeMs = lifeMs
    this.#queue = [...new Set([...Object.keys(first), ...Object.keys(later)])]
  }

  /** Lets one work run undisturbed and another be killed halfway, to see what there is. */
  static async make(): Promise<KillPlan> {
    const first = await inOwnDirectory(async (directory) => new LifeProcess(directory).undisturbed())
    const later = await inOwnDirectory(async (directory) => {
      await new LifeProcess(directory, { point: 'checkpoint-saved', visit: 3 }).ended
      return new LifeProcess(directory).undisturbed()
    })
    return new KillPlan(first.visits, later.visits, first.lifeMs)
  }

  /** Points that are to be visited still. */
  get left(): number {
    return this.#queue.length + this.#pending
  }

  get summary(): { readonly killedAt: number; readonly of: number; readonly missed: readonly string[] } {
    const of = this.#killedAt.size + this.#missed.length + this.left
    return { killedAt: this.#killedAt.size, of, missed: this.#missed }
  }

  next(isFirst: boolean, random: Random): Kill {
    const visits = isFirst ? this.#visits.first : this.#visits.later
    const place = this.#queue.findIndex((point) => point in visits)
    const point = this.#queue[place]
    if (point === undefined || random.next() < randomShare) {
      return { how: 'at random', afterMs: random.between(0, this.#lifeMs) }
    }
    this.#queue.splice(place, 1)
    this.#pending += 1
    // A process that goes on comes by less often, and each must come by once.
    const visit = this.#tries.has(point) ? 1 : 1 + random.integer(Math.ceil((visits[point] ?? 1) / 2))
    return { how: 'at a point', at: { point, visit } }
  }

  /** What came of it. */
  note(kill: Kill, wasKilled: boolean): void {
    if (kill.how === 'at random') return
    const { point } = kill.at
    this.#pending -= 1
    const tries = (this.#tries.get(point) ?? 0) + 1
    this.#tries.set(point, tries)
    if (wasKilled) this.#killedAt.add(point)
    else if (tries < mostTries) this.#queue.push(point)
    else this.#missed.push(point)
  }
}
