import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import type { CudaContext } from '../context.ts'
import { NvmlReturn } from '../nvml/failure.ts'
import { NvmlFailure } from '../host/native-host.ts'
import type { NativeHost } from '../host/native-host.ts'
import type { CudaProcessFacts } from '../processes/survey.ts'
import { assertHostRoom } from './host-room.ts'
import type { JournalEntry } from './journal.ts'
import { withProgress } from './progress.ts'
import type { OnProgress } from './progress.ts'
import { CudaResult, ProcessState, StepFailure, stepError } from './results.ts'
import { inverted } from './mapping.ts'
import { secondLook } from './second-look.ts'
import { Steps, memberOf, namesOf } from './steps.ts'
import type { Mapping, Member, StepTaken } from './steps.ts'

export interface TransitionOptions extends AbortOptions {
  readonly onProgress?: OnProgress | undefined
}

/** What was done to a group, and where the time went. */
export interface TransitionReport {
  readonly pids: readonly number[]
  readonly bytes: number
  /** The driver's own calls, in order. */
  readonly steps: readonly StepTaken[]
  /** From the first of these calls to the end of the last: how long the processes stood still, unless they are parked. */
  readonly pauseMs: number
}

const afterHangMs = 2_000

/**
 * One group of processes on its way from one state to another: all of them or none. Whatever goes wrong, every one of
 * them runs again, or is parked as it was; if not even that succeeds, the journal keeps it for recovery.
 */
export class Transition {
  readonly #context: CudaContext
  #members: readonly Member[]
  readonly #options: TransitionOptions
  #startedAt = 0
  /** Pids that somebody else has begun with: taking that back is not ours. */
  readonly #foreign = new Set<number>()
  /** Who has been restored to another GPU, as it is there. */
  readonly #arrived = new Map<number, Member>()
  /** GPUs that the members leave, and those they go to. */
  readonly #ours: Set<string>
  /** Everybody has been restored, and perhaps goes on already: from here the only way is forward. */
  #isThrough = false

  constructor(context: CudaContext, processes: readonly CudaProcessFacts[], options: TransitionOptions) {
    this.#context = context
    this.#options = options
    this.#members = processes.map(memberOf)
    this.#ours = new Set(this.#members.flatMap(({ memory }) => memory.map(({ uuid }) => uuid)))
  }

  /** Takes everything off the GPUs, into host memory. */
  async park(): Promise<TransitionReport> {
    return await this.#run('could not be parked', ProcessState.Running, async (steps) => {
      await this.#stop(steps)
      await this.#commit(steps, 'parked')
    })
  }

  /** Over to other GPUs. */
  async move(mapping: ReadonlyMap<string, string>): Promise<TransitionReport> {
    return await this.#run(
      'could not be moved',
      ProcessState.Running,
      async (steps) => {
        await this.#stop(steps)
        await this.#go(steps, mapping)
        await this.#commit(steps, 'running')
      },
      async (steps) => {
        await this.#goBack(steps, mapping)
        await this.#runAgain(steps)
      },
    )
  }

  /** Back from host memory, onto the GPUs it came from or onto those of `mapping`. A failure leaves it parked. */
  async resume(mapping: Mapping): Promise<TransitionReport> {
    return await this.#run(
      'could not be resumed and stays parked',
      ProcessState.Checkpointed,
      async (steps) => {
        await this.#go(steps, mapping)
        await this.#commit(steps, 'running')
      },
      (steps) =>
        this.#forEach(async (member) => {
          if (!this.#foreign.has(member.pid)) await steps.settleParked(member)
          await steps.hold(member, false)
          this.#context.journal.parked(member)
        }),
    )
  }

  async #run(
    what: string,
    expected: ProcessState,
    work: (steps: Steps) => Promise<void>,
    undo: (steps: Steps) => Promise<void> = (steps) => this.#runAgain(steps),
  ): Promise<TransitionReport> {
    const { signal } = this.#options
    const { cuda, clock } = this.#context
    signal?.throwIfAborted()
    return await cuda.use(undefined, async (host) => {
      const steps = new Steps(host, this.#context.stepsOptions)
      await steps.initialize({ signal })
      await this.#claim(steps, expected)
      const letGo = this.#context.keepNvml()
      try {
        for (const member of this.#members) await steps.hold(member, true)
        this.#startedAt = clock.now()
        await work(steps)
      } catch (error) {
        const failure = await this.#undone(host, steps, undo)
        // Who was through runs where it was to go after all.
        if (!this.#isThrough || failure !== undefined) {
          if (failure === undefined) signal?.throwIfAborted()
          throw await this.#explained(error, failure, what)
        }
      } finally {
        letGo()
      }
      const pauseMs = clock.now() - this.#startedAt
      const bytes = this.#members.reduce((sum, member) => sum + member.bytes, 0)
      return { pids: this.#members.map(({ pid }) => pid), bytes, steps: steps.taken, pauseMs }
    })
  }

  /** All or none, and only in the state they are expected in: then nobody else of ours is at them. */
  async #claim(steps: Steps, expected: ProcessState): Promise<void> {
    const { journal } = this.#context
    const claimed: { readonly member: Member; readonly before: JournalEntry | undefined }[] = []
    const group = this.#members.map(({ pid }) => pid)
    try {
      for (const member of this.#members) {
        const { pid, startTime, name, memory } = member
        const before = journal.claim({ pid, startTime, name, group, gpus: memory })
        claimed.push({ member, before })
        const state = await steps.state(member)
        if (state !== expected) throw isElsewhere(member, state)
      }
    } catch (error) {
      for (const { member, before } of claimed) attempt(() => journal.unclaim(member, before))
      throw stepError(error, `${namesOf(this.#members)} was left alone`)
    }
  }

  /** Locks all before it copies one: what they have submitted together can only end while all may still work. */
  async #stop(steps: Steps): Promise<void> {
    const { signal } = this.#options
    for (const member of this.#members) {
      signal?.throwIfAborted()
      await this.#unlessForeign(member, () => steps.lock(member, this.#context.lockTimeoutMs))
    }
    this.#members = await secondLook(this.#context, this.#members, this.#options)
    for (const [index, member] of this.#members.entries()) {
      signal?.throwIfAborted()
      assertHostRoom(this.#context, this.#members.slice(index))
      await this.#watched(member, 'checkpoint', () => steps.checkpoint(member))
    }
  }

  /** Everybody gets memory back before anybody may work. */
  async #go(steps: Steps, mapping: Mapping): Promise<void> {
    for (const { memory } of this.#members) for (const { uuid } of memory) this.#ours.add(mapping?.get(uuid) ?? uuid)
    for (const member of this.#members) {
      this.#options.signal?.throwIfAborted()
      await this.#watched(member, 'restore', () => this.#unlessForeign(member, () => steps.restore(member, mapping)))
      if (mapping !== undefined) this.#arrived.set(member.pid, located(member, mapping))
    }
    this.#isThrough = true
    await this.#forEach((member) => steps.unlock(member))
  }

  /** Who has arrived already goes back, so that all are where they were; who cannot goes on where it is. */
  async #goBack(steps: Steps, mapping: ReadonlyMap<string, string>): Promise<void> {
    if (this.#isThrough) return
    for (const member of this.#members) {
      const arrived = this.#arrived.get(member.pid)
      if (arrived === undefined) continue
      try {
        if ((await steps.state(member)) !== ProcessState.Locked) continue
        await steps.checkpoint(arrived)
        await steps.restore(arrived, inverted(mapping))
        this.#arrived.delete(member.pid)
      } catch {
        // Whatever state that has left it in, it is to run.
      }
    }
  }

  /** A step that somebody else is in the middle of is theirs to take back. */
  async #unlessForeign(member: Member, step: () => Promise<void>): Promise<void> {
    try {
      await step()
    } catch (error) {
      if (error instanceof StepFailure && error.result === CudaResult.IllegalState) this.#foreign.add(member.pid)
      throw error
    }
  }

  async #commit(steps: Steps, goal: 'running' | 'parked'): Promise<void> {
    for (const member of this.#members) {
      if (goal === 'parked') this.#context.journal.parked(member)
      await steps.hold(member, false)
      if (goal === 'running') this.#context.journal.forget(member)
    }
  }

  #runAgain(steps: Steps): Promise<void> {
    return this.#forEach(async (member) => {
      if (!this.#foreign.has(member.pid)) await steps.settleRunning(this.#arrived.get(member.pid) ?? member)
      await steps.hold(member, false)
      this.#context.journal.forget(member)
    })
  }

  /** One that fails keeps none of the others from it. Who has ended, or is beyond repair, is held no more. */
  async #forEach(work: (member: Member) => Promise<void>): Promise<void> {
    const failures: unknown[] = []
    for (const member of this.#members) {
      try {
        await work(member)
      } catch (error) {
        const isOver = EGpuError.is(error, EGpuErrorCode.ProcessNotFound) || hasFailed(error)
        if (isOver) this.#context.journal.forget(member)
        else failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
  }

  /** Takes back what was done, or completes what is through. A host that is given up, or dies, is replaced once. */
  async #undone(host: NativeHost, steps: Steps, undo: (steps: Steps) => Promise<void>): Promise<unknown> {
    const { cuda, journal } = this.#context
    const back = (by: Steps): Promise<void> => (this.#isThrough ? this.#runAgain(by) : undo(by))
    try {
      if (!host.isOver) {
        try {
          return await back(steps)
        } catch (error) {
          if (!host.isOver) throw error
        }
      }
      return await cuda.use(undefined, async (another) => {
        // The driver hung a moment ago: it gets a short chance, and recovery the rest.
        const fresh = new Steps(another, { ...this.#context.stepsOptions, stepTimeoutMs: afterHangMs })
        await fresh.initialize()
        await back(fresh)
      })
    } catch (error) {
      for (const member of this.#members) attempt(() => journal.disown(member))
      return error
    }
  }

  async #explained(error: unknown, failure: unknown, what: string): Promise<unknown> {
    const names = namesOf(this.#members)
    const lost = mayMeanLoss(error) ? await this.#lostGpu() : undefined
    const rest =
      failure === undefined
        ? ''
        : '; it may still be held: plug the GPU in if it is out, then run `egpu cuda recover` (recoverCudaProcesses())'
    if (lost !== undefined) {
      const text = `${names}: GPU ${lost} was lost in the middle, and what was on it with it${rest}`
      return new EGpuError(EGpuErrorCode.DeviceLost, text, { cause: error, driver: 'cuda', deviceId: lost })
    }
    const explained = stepError(error, `${names} ${what}`)
    if (failure === undefined) return explained
    const [code, text] = EGpuError.is(explained)
      ? [explained.code, explained.message]
      : [EGpuErrorCode.MigrationFailed, `${names} ${what}: ${String(explained)}`]
    return new EGpuError(code, `${text}${rest}`, { cause: explained, driver: 'cuda' })
  }

  /** Whether the driver says that a GPU of ours is gone; a question with an end. */
  async #lostGpu(): Promise<string | undefined> {
    for (const uuid of this.#ours) {
      const gpu = this.#context.gpus.touchable(uuid)
      if (gpu === undefined) return uuid
      if (gpu === 'asleep') continue
      try {
        await this.#context.gpus.use((host) =>
          host.call('nvml.health', { busId: gpu.busId, withLink: false }, { timeoutMs: 2_000 }),
        )
      } catch (error) {
        if (error instanceof NvmlFailure && error.result === NvmlReturn.GpuIsLost) return uuid
      }
    }
    return undefined
  }

  #watched(member: Member, step: 'checkpoint' | 'restore', work: () => Promise<void>): Promise<void> {
    const { procRoot, clock } = this.#context
    return withProgress({ member, step, procRoot, clock }, this.#options.onProgress, work)
  }
}

/** Refusals that have another reason for certain. */
const plainRefusals: ReadonlySet<number> = new Set([
  CudaResult.InvalidValue,
  CudaResult.OutOfMemory,
  CudaResult.InvalidDevice,
  CudaResult.NotReady,
  CudaResult.NotPermitted,
  CudaResult.NotSupported,
])

function mayMeanLoss(error: unknown): boolean {
  if (error instanceof StepFailure) return !plainRefusals.has(error.result)
  return EGpuError.is(error, EGpuErrorCode.Timeout) || EGpuError.is(error, EGpuErrorCode.NativeUnavailable)
}

function hasFailed(error: unknown): boolean {
  return error instanceof StepFailure && error.state === ProcessState.Failed
}

/** What may fail without consequences. */
function attempt(work: () => void): void {
  try {
    work()
  } catch {
    // The note stays as it is, and recovery finds out.
  }
}

function isElsewhere({ pid, name }: Member, state: ProcessState): EGpuError {
  return new EGpuError(
    EGpuErrorCode.DeviceBusy,
    `${name} (pid ${pid}) is ${state} and was left alone; if nobody is moving it, run \`egpu cuda recover\``,
    { driver: 'cuda' },
  )
}

/** What it holds now that it has arrived. */
function located(member: Member, mapping: ReadonlyMap<string, string>): Member {
  return memberOf({
    ...member,
    memory: member.memory.map(({ uuid, bytes }) => ({ uuid: mapping.get(uuid) ?? uuid, bytes })),
  })
}
