import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, Clock } from '@egpu/core'
import type { NativeHost } from '../host/native-host.ts'
import { readProcess } from '../processes/proc.ts'
import { gpuPairs } from './mapping.ts'
import { CudaResult, ProcessState, StepFailure, stateNamed } from './results.ts'
import type { StepName } from './results.ts'

/** A process as steps are done with it. */
export interface Member {
  readonly pid: number
  readonly startTime: string
  readonly name: string
  /** What it holds on GPUs, or held before it was parked, as far as known. */
  readonly bytes: number
  readonly memory: readonly { readonly uuid: string; readonly bytes: number }[]
}

export function memberOf({
  pid,
  startTime,
  name,
  memory,
}: Omit<Member, 'bytes' | 'memory'> & {
  readonly memory: readonly { readonly uuid: string; readonly bytes: number | undefined }[]
}): Member {
  const known = memory.map(({ uuid, bytes = 0 }) => ({ uuid, bytes }))
  return { pid, startTime, name, memory: known, bytes: known.reduce((sum, { bytes }) => sum + bytes, 0) }
}

export function namesOf(members: readonly Member[]): string {
  return members.map(({ pid, name }) => `${name} (pid ${pid})`).join(', ')
}

/** Which GPU each becomes; `undefined` is all as before. */
export type Mapping = ReadonlyMap<string, string> | undefined

/** One step that was done, and how long the driver took. */
export interface StepTaken {
  readonly pid: number
  readonly step: StepName
  readonly ms: number
}

/** A driver that moves less than this in a second is given up; the slowest link of an eGPU carries 30 times as much. */
const slowestBytesPerSecond = 50e6
/** A longer one fires at once. */
const longestTimerMs = 2 ** 31 - 1

export interface StepsOptions {
  readonly procRoot: string
  readonly clock: Clock
  /** What a step may take beside copying, before its host is given up. */
  readonly stepTimeoutMs: number
  readonly initializeTimeoutMs: number
  /** Rejects when a restore must not be tried now. */
  readonly awaitRoom: (member: Member, mapping: Mapping) => Promise<void>
}

/** The driver's four calls with what it takes to trust them: the right process, and the state read back. */
export class Steps {
  readonly taken: StepTaken[] = []
  readonly #host: NativeHost
  readonly #procRoot: string
  readonly #clock: Clock
  readonly #stepTimeoutMs: number
  readonly #initializeTimeoutMs: number
  readonly #awaitRoom: StepsOptions['awaitRoom']

  constructor(host: NativeHost, options: StepsOptions) {
    this.#host = host
    this.#procRoot = options.procRoot
    this.#clock = options.clock
    this.#stepTimeoutMs = options.stepTimeoutMs
    this.#initializeTimeoutMs = options.initializeTimeoutMs
    this.#awaitRoom = options.awaitRoom
  }

  /** Comes before every other call, and changes nothing that an abort would have to take back. */
  async initialize({ signal }: AbortOptions = {}): Promise<void> {
    const timeoutMs = this.#initializeTimeoutMs
    const { result } = await this.#host.call('cuda.initialize', undefined, { signal, timeoutMs })
    if (result === CudaResult.Success) return
    throw new EGpuError(
      EGpuErrorCode.NativeUnavailable,
      `CUDA cannot be initialised (cuInit answered ${result}); see whether nvidia-smi works`,
      { driver: 'cuda' },
    )
  }

  /** Has the host set this process to work again if we die. */
  async hold({ pid }: Member, held: boolean): Promise<void> {
    await this.#host.call('cuda.hold', { pid, held })
  }

  async state(member: Member): Promise<ProcessState> {
    this.assertSame(member)
    const { result, state } = await this.#host.call('cuda.state', { pid: member.pid })
    const named = stateNamed(state)
    if (result !== CudaResult.Success || named === undefined) throw this.#failed('state', member, result, undefined)
    return named
  }

  async lock(member: Member, timeoutMs: number): Promise<void> {
    this.assertSame(member)
    const answer = await this.#host.call(
      'cuda.lock',
      { pid: member.pid, timeoutMs },
      { timeoutMs: timeoutMs + this.#stepTimeoutMs },
    )
    await this.#done('lock', member, answer, ProcessState.Locked)
  }

  async checkpoint(member: Member): Promise<void> {
    this.assertSame(member)
    const answer = await this.#host.call('cuda.checkpoint', { pid: member.pid }, { timeoutMs: this.#limitMs(member) })
    await this.#done('checkpoint', member, answer, ProcessState.Checkpointed)
  }

  async restore(member: Member, mapping: Mapping): Promise<void> {
    await this.#awaitRoom(member, mapping)
    this.assertSame(member)
    const answer = await this.#host.call(
      'cuda.restore',
      { pid: member.pid, gpuPairs: mapping && gpuPairs(mapping) },
      { timeoutMs: this.#limitMs(member) },
    )
    await this.#done('restore', member, answer, ProcessState.Locked)
  }

  async unlock(member: Member): Promise<void> {
    this.assertSame(member)
    const answer = await this.#host.call('cuda.unlock', { pid: member.pid }, { timeoutMs: this.#stepTimeoutMs })
    await this.#done('unlock', member, answer, ProcessState.Running)
  }

  /**
   * Whatever a process is in the middle of, it runs in the end, on the GPU it came from. A step that somebody else has
   * begun is waited for. Throws when the driver refuses.
   */
  async settleRunning(member: Member): Promise<void> {
    await this.#settle(member, ProcessState.Running, async (state) => {
      if (state === ProcessState.Checkpointed) await this.restore(member, undefined)
      else await this.unlock(member)
    })
  }

  /** Locked or restored processes are put back into host memory. */
  async settleParked(member: Member): Promise<void> {
    await this.#settle(member, ProcessState.Checkpointed, async () => await this.checkpoint(member))
  }

  /** The pid is still this process and not a later one. Throws `EGPU_PROCESS_NOT_FOUND`. */
  assertSame({ pid, startTime, name }: Member): void {
    if (readProcess(this.#procRoot, pid)?.startTime === startTime) return
    throw new EGpuError(
      EGpuErrorCode.ProcessNotFound,
      `process ${pid} (${name}) has ended; nothing is left to do for it`,
      {
        driver: 'cuda',
      },
    )
  }

  async #settle(member: Member, wanted: ProcessState, act: (state: ProcessState) => Promise<void>): Promise<void> {
    const deadline = this.#clock.now() + this.#limitMs(member)
    for (;;) {
      const state = await this.state(member)
      if (state === wanted) return
      if (state === ProcessState.Failed) throw new StepFailure('state', member.pid, CudaResult.Success, state)
      if (state === ProcessState.Locked || state === ProcessState.Checkpointed) {
        try {
          await act(state)
          continue
        } catch (error) {
          // Somebody's step is still under way in the process itself; it ends on its own.
          const waits = error instanceof StepFailure && error.result === CudaResult.IllegalState
          if (!waits || this.#clock.now() > deadline) throw error
        }
      } else if (this.#clock.now() > deadline) throw new StepFailure('state', member.pid, CudaResult.NotReady, state)
      await this.#clock.sleep(50)
    }
  }

  /** What the driver answered is one thing, what state the process is in another; both have to be right. */
  async #done(
    step: StepName,
    member: Member,
    { result, ms }: { readonly result: number; readonly ms: number },
    wanted: ProcessState,
  ): Promise<void> {
    const state = await this.state(member).catch((error: unknown) => {
      if (result === CudaResult.Success) throw error
    })
    if (result !== CudaResult.Success || state !== wanted) {
      throw this.#failed(step, member, result, state ?? undefined)
    }
    this.taken.push({ pid: member.pid, step, ms })
  }

  /** A process that ended in the middle of a step is the reason why that failed, whatever the driver answered. */
  #failed(step: StepName | 'state', member: Member, result: number, state: ProcessState | undefined): StepFailure {
    this.assertSame(member)
    return new StepFailure(step, member.pid, result, state)
  }

  #limitMs({ bytes }: Member): number {
    return Math.min(longestTimerMs, Math.ceil(this.#stepTimeoutMs + (bytes / slowestBytesPerSecond) * 1_000))
  }
}
