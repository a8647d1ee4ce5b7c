import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import type { CudaContext } from '../context.ts'
import { NvmlReturn } from '../nvml/failure.ts'
import { NvmlFailure } from '../host/native-host.ts'
import type { CudaProcessFacts } from '../processes/survey.ts'
import { withProgress } from './progress.ts'
import type { OnProgress } from './progress.ts'
import { CudaResult, ProcessState, StepFailure, stepError } from './results.ts'
import { inverted } from './mapping.ts'
import { Steps, memberOf } from './steps.ts'
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
  readonly #members: readonly Member[]
  readonly #processes: readonly CudaProcessFacts[]
  readonly #options: TransitionOptions
  #startedAt = 0
  readonly #arrived = new Set<number>()

  constructor(context: CudaContext, processes: readonly CudaProcessFacts[], options: TransitionOptions) {
    this.#context = context
    this.#processes = processes
    this.#options = options
    this.#members = processes.map(memberOf)
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
        // Who has arrived already goes back, so that all are where they were.
        for (const member of this.#members) {
          const state = await steps.state(member).catch(() => undefined)
          if (state !== ProcessState.Locked || !this.#hasArrived(member)) continue
          await steps.checkpoint(member)
          await steps.restore(located(member, mapping), inverted(mapping))
        }
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
      async (steps) => {
        for (const member of this.#members) await steps.settleParked(member)
        for (const member of this.#members) {
          await steps.hold(member, false)
          this.#context.journal.parked(member)
        }
      },
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
      await steps.initialize()
      for (const member of this.#members) {
        const state = await steps.state(member).catch((error: unknown) => {
          throw stepError(error, `${member.name} (pid ${member.pid}) was left alone`)
        })
        if (state !== expected) throw isElsewhere(member, state)
      }
      this.#claim()
      const letGo = this.#context.keepNvml()
      try {
        for (const member of this.#members) await steps.hold(member, true)
        this.#startedAt = clock.now()
        await work(steps)
      } catch (error) {
        const failure = await this.#undone(host.isOver ? undefined : steps, undo)
        signal?.throwIfAborted()
        throw await this.#explained(error, failure, what)
      } finally {
        letGo()
      }
      const pauseMs = clock.now() - this.#startedAt
      const bytes = this.#members.reduce((sum, member) => sum + member.bytes, 0)
      return { pids: this.#members.map(({ pid }) => pid), bytes, steps: steps.taken, pauseMs }
    })
  }

  /** All or none. */
  #claim(): void {
    const claimed: Member[] = []
    const group = this.#members.map(({ pid }) => pid)
    try {
      for (const { pid, startTime, name, memory } of this.#processes) {
        const gpus = memory.map(({ uuid, bytes = 0 }) => ({ uuid, bytes }))
        this.#context.journal.claim({ pid, startTime, name, group, gpus })
        claimed.push(memberOf({ pid, startTime, name, memory: gpus }))
      }
    } catch (error) {
      for (const member of claimed) this.#context.journal.forget(member)
      throw error
    }
  }

  /** Locks all before it copies one: what they have submitted together can only end while all may still work. */
  async #stop(steps: Steps): Promise<void> {
    const { signal } = this.#options
    for (const member of this.#members) {
      signal?.throwIfAborted()
      await steps.lock(member, this.#context.lockTimeoutMs)
    }
    await this.#assertUnshared()
    for (const member of this.#members) {
      signal?.throwIfAborted()
      await this.#watched(member, 'checkpoint', () => steps.checkpoint(member))
    }
  }

  /**
   * Looks once more now that nobody can make a CUDA call any more: memory that was shared a moment ago would make a
   * checkpoint that cannot be restored.
   */
  async #assertUnshared(): Promise<void> {
    const { signal } = this.#options
    const pids = this.#members.map(({ pid }) => pid)
    const imports = await this.#context.gpus
      .use((host) => host.call('kernel.imported', { pids }, { signal }))
      // A driver that cannot be asked: the first look has refused whoever has neighbours.
      .catch(() => [])
    const shared = imports.find(({ bytes }) => bytes > 0)
    if (shared === undefined) return
    throw new EGpuError(
      EGpuErrorCode.NotSupported,
      `process ${shared.pid} was left alone: it has just opened ${shared.bytes} bytes of another process's GPU memory (CUDA IPC), which NVIDIA could not restore`,
      { driver: 'cuda' },
    )
  }

  /** Everybody gets memory back before anybody may work. */
  async #go(steps: Steps, mapping: Mapping): Promise<void> {
    for (const member of this.#members) {
      this.#options.signal?.throwIfAborted()
      await this.#watched(member, 'restore', () => steps.restore(member, mapping))
      this.#arrived.add(member.pid)
    }
    for (const member of this.#members) await steps.unlock(member)
  }

  async #commit(steps: Steps, goal: 'running' | 'parked'): Promise<void> {
    for (const member of this.#members) {
      if (goal === 'parked') this.#context.journal.parked(member)
      await steps.hold(member, false)
      if (goal === 'running') this.#context.journal.forget(member)
    }
  }

  #hasArrived({ pid }: Member): boolean {
    return this.#arrived.has(pid)
  }

  async #runAgain(steps: Steps): Promise<void> {
    const failures: unknown[] = []
    for (const member of this.#members) {
      try {
        await steps.settleRunning(member)
        await steps.hold(member, false)
        this.#context.journal.forget(member)
      } catch (error) {
        // Ended, or beyond repair: nothing is held any more.
        const isOver = EGpuError.is(error, EGpuErrorCode.ProcessNotFound) || hasFailed(error)
        if (isOver) this.#context.journal.forget(member)
        else failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
  }

  /** Takes back what was done; a host that was given up is replaced first. */
  async #undone(steps: Steps | undefined, undo: (steps: Steps) => Promise<void>): Promise<unknown> {
    const { cuda } = this.#context
    try {
      if (steps !== undefined) await undo(steps)
      else {
        await cuda.use(undefined, async (host) => {
          // The driver hung a moment ago: it gets a short chance, and recovery the rest.
          const fresh = new Steps(host, { ...this.#context.stepsOptions, stepTimeoutMs: afterHangMs })
          await fresh.initialize()
          await undo(fresh)
        })
      }
      return undefined
    } catch (error) {
      for (const member of this.#members) this.#context.journal.disown(member)
      return error
    }
  }

  async #explained(error: unknown, failure: unknown, what: string): Promise<unknown> {
    const names = this.#members.map(({ pid, name }) => `${name} (pid ${pid})`).join(', ')
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
    if (failure === undefined || !EGpuError.is(explained)) return explained
    return new EGpuError(explained.code, `${explained.message}${rest}`, { cause: explained, driver: 'cuda' })
  }

  /** Whether the driver says that a GPU of ours is gone; a question with an end. */
  async #lostGpu(): Promise<string | undefined> {
    for (const uuid of new Set(this.#processes.flatMap(({ memory }) => memory.map((one) => one.uuid)))) {
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
