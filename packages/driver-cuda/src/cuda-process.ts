import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import { assertHostRoom } from './checkpoint/host-room.ts'
import { canMove, permutationOf } from './checkpoint/mapping.ts'
import type { GpuMoves, MappableGpu } from './checkpoint/mapping.ts'
import { recoverIn } from './checkpoint/recover.ts'
import { ProcessState } from './checkpoint/results.ts'
import { Transition } from './checkpoint/transition.ts'
import type { TransitionOptions, TransitionReport } from './checkpoint/transition.ts'
import { CudaContext } from './context.ts'
import type { CudaOptions } from './context.ts'
import type { NotCheckpointable } from './processes/checkpointable.ts'
import { survey } from './processes/survey.ts'
import type { CudaProcessFacts, Survey } from './processes/survey.ts'

export interface MoveOptions extends TransitionOptions {
  /** Which of several GPUs is left; needed only when the processes use more than one. */
  readonly from?: string | undefined
}

/**
 * A program that computes on NVIDIA GPUs, as it was when it was listed. It needs to know nothing of all this. Its
 * methods act on its whole group (`group`): all of them or none. They reject with
 *
 * - `EGPU_PROCESS_NOT_FOUND` when it has ended, also when its pid is somebody else's by now;
 * - `EGPU_NOT_SUPPORTED` when it cannot be checkpointed, with the reasons;
 * - `EGPU_PERMISSION_DENIED`, `EGPU_DEVICE_BUSY` (somebody is at it already), `EGPU_TIMEOUT` (it did not come to rest),
 *   `EGPU_TARGET_INCOMPATIBLE` (no room in host memory, or on the other GPU), `EGPU_DEVICE_NOT_FOUND`,
 *   `EGPU_DEVICE_LOST` (in the middle of it) and `EGPU_MIGRATION_FAILED`.
 *
 * After a rejection it runs as before, or stays parked as before. An abort takes effect between two steps of the
 * driver, which cannot be interrupted, and takes back what was done.
 */
export class CudaProcess implements CudaProcessFacts {
  readonly pid: number
  readonly startTime: string
  readonly name: string
  readonly command: readonly string[]
  readonly user: string | undefined
  readonly parentPid: number | undefined
  readonly memory: CudaProcessFacts['memory']
  readonly opens: readonly string[]
  readonly state: CudaProcessFacts['state']
  readonly checkpointable: CudaProcessFacts['checkpointable']
  readonly group: readonly number[]
  readonly #context: CudaContext

  /** Use `listCudaProcesses()`. */
  constructor(context: CudaContext, facts: CudaProcessFacts) {
    this.#context = context
    this.pid = facts.pid
    this.startTime = facts.startTime
    this.name = facts.name
    this.command = facts.command
    this.user = facts.user
    this.parentPid = facts.parentPid
    this.memory = facts.memory
    this.opens = facts.opens
    this.state = facts.state
    this.checkpointable = facts.checkpointable
    this.group = facts.group
  }

  /** Takes it off its GPUs: what it has there is kept in host memory, and it stands still at its next CUDA call. */
  async park(options: TransitionOptions = {}): Promise<TransitionReport> {
    const { members } = await this.#look(options, 'stop')
    assertHostRoom(this.#context, members)
    return await new Transition(this.#context, members, options).park()
  }

  /** Puts it back onto the GPUs it was parked from and lets it go on. */
  async resume(options: TransitionOptions = {}): Promise<TransitionReport> {
    const { members } = await this.#look(options, 'resume')
    return await new Transition(this.#context, members, options).resume(undefined)
  }

  /**
   * Moves it to another GPU of the same kind, where it goes on; a parked one too. `gpu` is a UUID. Everything that can
   * be known is checked before it is stopped.
   */
  async moveTo(gpu: string, options: MoveOptions = {}): Promise<TransitionReport> {
    const { members, seen, isParked } = await this.#look(options, 'either')
    const from = sourceOf(members, options.from)
    const mapping = await this.#mapping(seen, members, { [from]: gpu }, options)
    if (!isParked) assertHostRoom(this.#context, members)
    const transition = new Transition(this.#context, members, options)
    const report = isParked ? await transition.resume(mapping) : await transition.move(mapping)
    await this.#verify(from, gpu)
    return report
  }

  /** Those of the group who are to be stopped, or are parked, as they are now and fit for it. */
  async #look(
    { signal }: AbortOptions,
    purpose: 'stop' | 'resume' | 'either',
  ): Promise<{ readonly members: readonly CudaProcessFacts[]; readonly seen: Survey; readonly isParked: boolean }> {
    await recoverIn(this.#context, (entry) => this.group.includes(entry.pid), { signal })
    const seen = await survey(this.#context, { signal })
    const self = seen.processes.find(({ pid, startTime }) => pid === this.pid && startTime === this.startTime)
    if (self === undefined) {
      throw new EGpuError(
        EGpuErrorCode.ProcessNotFound,
        `process ${this.pid} (${this.name}) has ended, or uses no GPU any more; list the processes again`,
        { driver: 'cuda' },
      )
    }
    const isParked = purpose === 'either' ? self.state === ProcessState.Checkpointed : purpose === 'resume'
    // Who joined the group after the others were parked runs; they stay as they are until it is their turn.
    const members = seen.processes.filter(
      ({ pid, state }) => self.group.includes(pid) && (state === ProcessState.Checkpointed) === isParked,
    )
    if (members.length === 0) {
      const text = isParked ? 'is not parked, so there is nothing to resume' : 'is parked already; resume it first'
      throw new EGpuError(EGpuErrorCode.DeviceBusy, `${this.name} (pid ${this.pid}) ${text}`, { driver: 'cuda' })
    }
    for (const { name, pid, checkpointable } of members) {
      if (checkpointable.possible) continue
      // What keeps a program from being parked does not keep one that is from coming back.
      const counting = checkpointable.reasons.filter(({ code }) => !isParked || isForeign(code))
      if (counting.length === 0) continue
      throw new EGpuError(
        counting.some(({ code }) => isForeign(code)) ? EGpuErrorCode.PermissionDenied : EGpuErrorCode.NotSupported,
        `${name} (pid ${pid}) cannot be parked or moved: ${counting.map(({ reason }) => reason).join('; ')}`,
        { driver: 'cuda' },
      )
    }
    return { members, seen, isParked }
  }

  async #mapping(
    { gpus, cudaVersion }: Survey,
    members: readonly CudaProcessFacts[],
    moves: GpuMoves,
    { signal }: AbortOptions,
  ): Promise<ReadonlyMap<string, string>> {
    if (!canMove(cudaVersion)) {
      const text = 'moving a process to another GPU needs NVIDIA driver 580 or later; park it, or update the driver'
      throw new EGpuError(EGpuErrorCode.NotSupported, text, { driver: 'cuda' })
    }
    const bytesOn = new Map<string, number>()
    for (const { uuid, bytes = 0 } of members.flatMap(({ memory }) => memory)) {
      bytesOn.set(uuid, (bytesOn.get(uuid) ?? 0) + bytes)
    }
    const mappable = await Promise.all(
      [...gpus.values()].map(async (seenGpu): Promise<MappableGpu> => {
        const { identity, gpu, key, powerState } = seenGpu.observation
        const model =
          identity.deviceId === undefined ? undefined : identity.deviceId * 0x10000 + (identity.vendorId ?? 0)
        const base = { uuid: key, name: gpu.name, model, memoryBytes: gpu.memoryBytes }
        if (powerState === 'suspended') return { ...base, freeBytes: gpu.memoryBytes }
        return { ...base, freeBytes: await this.#context.gpus.freeBytes(seenGpu, { signal }) }
      }),
    )
    return permutationOf({ gpus: mappable, moves, bytesOn })
  }

  /** What the driver says it did is looked up at NVML, which counts memory for itself. */
  async #verify(from: string, to: string): Promise<void> {
    const { processes } = await survey(this.#context, {})
    const now = processes.find(({ pid, startTime }) => pid === this.pid && startTime === this.startTime)
    // It may have ended meanwhile, which it was free to do.
    if (now === undefined || from === to || !now.memory.some(({ uuid }) => uuid === from)) return
    throw new EGpuError(
      EGpuErrorCode.MigrationFailed,
      `the driver says that process ${this.pid} was moved to ${to}, and NVML still sees it on ${from}`,
      { driver: 'cuda', deviceId: from },
    )
  }
}

/**
 * Everybody who computes on an NVIDIA GPU of this machine, and everybody who is parked. GPUs that sleep are not woken.
 * Rejects with `EGPU_NATIVE_UNAVAILABLE` when NVIDIA's libraries are not to be had, `EGPU_TIMEOUT` when they hang.
 */
export async function listCudaProcesses(options: CudaOptions & AbortOptions = {}): Promise<readonly CudaProcess[]> {
  return await processesIn(new CudaContext(options), options)
}

/** The same with what else the look has found. */
export async function surveyed(
  context: CudaContext,
  options: AbortOptions,
): Promise<Omit<Survey, 'processes'> & { readonly processes: readonly CudaProcess[] }> {
  const seen = await survey(context, options)
  return { ...seen, processes: seen.processes.map((facts) => new CudaProcess(context, facts)) }
}

/** Of one context, so that its owner can end what it has running. */
export async function processesIn(context: CudaContext, options: AbortOptions): Promise<readonly CudaProcess[]> {
  return (await surveyed(context, options)).processes
}

export function bytesOf(memory: CudaProcessFacts['memory']): number {
  return memory.reduce((sum, { bytes = 0 }) => sum + bytes, 0)
}

function isForeign(code: NotCheckpointable['code']): boolean {
  return code === 'other-user' || code === 'hidden'
}

/** The GPU that is left: the one that was named, or the only one. */
function sourceOf(members: readonly CudaProcessFacts[], named: string | undefined): string {
  const uuids = [...new Set(members.flatMap(({ memory }) => memory.map(({ uuid }) => uuid)))]
  if (named !== undefined && !uuids.includes(named)) {
    throw new TypeError(`the processes are not on GPU ${named}; they use ${uuids.join(', ')}`)
  }
  const [only] = uuids
  const from = named ?? (uuids.length === 1 ? only : undefined)
  if (from !== undefined) return from
  throw new TypeError(`the processes use ${uuids.join(', ')}; say with \`from\` which one is to be left`)
}
