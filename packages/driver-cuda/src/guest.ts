import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, EGpuDevice, Guest, LeaveResult } from '@egpu/core'
import { CudaContext } from './context.ts'
import type { CudaOptions } from './context.ts'
import { processesIn } from './cuda-process.ts'
import type { CudaProcess } from './cuda-process.ts'
import type { OnProgress } from './checkpoint/progress.ts'
import { ProcessState } from './checkpoint/results.ts'
import type { TransitionOptions } from './checkpoint/transition.ts'
import type { CudaDriver } from './driver.ts'
import { planIn } from './leaving.ts'
import type { Leaving, LeavingOptions } from './leaving.ts'

export interface CudaGuestOptions extends CudaOptions, LeavingOptions {
  /** The manager's own `cudaDriver()`: it lets go of the GPU's device node along with the processes. */
  readonly driver?: CudaDriver | undefined
  readonly onProgress?: OnProgress | undefined
  /** Hears of a process that could not be brought back after the disconnect was called off. */
  readonly onError?: ((error: unknown) => void) | undefined
}

export interface CudaGuest extends Guest {
  /**
   * Resolves once nobody is being parked or moved, and everybody runs again who was called back: await it before the
   * process ends.
   */
  settled(): Promise<void>
}

/** Programs that are stopped together. */
type Group = readonly CudaProcess[]

/**
 * Has the CUDA processes of a GPU leave before it is disconnected: `manager.addGuest(cudaGuest({ driver }))`. They move
 * to an equal GPU with room if there is one and if that frees this one, else they are parked in host memory until
 * `resumeParked()`. An abort, at whatever moment, brings back who was parked. One that can do neither is a veto before
 * anybody is stopped; when one fails on the way, those that had been parked come back. One that ends by itself meanwhile
 * has left like the others.
 *
 * A program that may see several GPUs keeps all of them open wherever it computes, so moving it would free none; one
 * started with `runMovable(…, { gpu })`, or with one GPU in `CUDA_VISIBLE_DEVICES`, takes only its own along.
 */
export function cudaGuest(options: CudaGuestOptions = {}): CudaGuest {
  const context = new CudaContext(options)
  /** What a call-off has to undo, by the device that was to go. */
  const away = new Map<string, { readonly parked: readonly Group[]; readonly takeBack: (() => void) | undefined }>()
  const underWay = new Set<Promise<unknown>>()
  const track = <T>(work: Promise<T>): Promise<T> => {
    const tracked = work.catch(() => undefined).finally(() => underWay.delete(tracked))
    underWay.add(tracked)
    return work
  }

  const resumeAll = async (parked: readonly Group[]): Promise<void> => {
    for (const group of parked) await resumeGroup(group).catch((error: unknown) => options.onError?.(error))
  }

  /** Has everybody leave, who is parked being noted in `parked`; says why somebody cannot, before that one is stopped. */
  const empty = async (
    uuid: string,
    parked: Group[],
    signal: AbortSignal | undefined,
  ): Promise<{ readonly moved: readonly string[]; readonly reason?: string }> => {
    const moved: string[] = []
    for (;;) {
      const leavings = await planIn(context, uuid, { ...options, signal })
      const staying = leavings.flatMap((one) => (one.how === 'stay' ? [`${namesOf(one)}: ${one.reason}`] : []))
      if (staying.length > 0) return { moved, reason: staying.join('; ') }
      try {
        for (const leaving of leavings) {
          signal?.throwIfAborted()
          const where = await carryOut(leaving, uuid, context, options, signal)
          if (where === undefined) parked.push(leaving.processes)
          moved.push(`${namesOf(leaving)}: ${where === undefined ? 'parked in host memory' : `moved to ${where}`}`)
        }
        return { moved }
      } catch (error) {
        // One that ended by itself has left as well; who is still there is looked up anew, as its group may be.
        if (!EGpuError.is(error, EGpuErrorCode.ProcessNotFound)) throw error
      }
    }
  }

  const leave = async (device: EGpuDevice, uuid: string, signal: AbortSignal | undefined): Promise<LeaveResult> => {
    const parked: Group[] = []
    try {
      const { moved, reason } = await empty(uuid, parked, signal)
      if (reason !== undefined) {
        await resumeAll(parked)
        return { left: false, reason }
      }
      await context.release()
      const takeBack = await options.driver?.release(uuid)
      // An answer that comes too late is not heard, and nobody would call us back.
      if (signal?.aborted === true) takeBack?.()
      signal?.throwIfAborted()
      away.set(device.id, { parked, takeBack })
      return { left: true, moved }
    } catch (error) {
      await resumeAll(parked)
      signal?.throwIfAborted()
      if (!EGpuError.is(error)) throw error
      return { left: false, reason: error.message }
    } finally {
      await context.release()
    }
  }

  return {
    name: 'cuda',
    async leave(device, { signal }): Promise<LeaveResult> {
      const { uuid } = device.identity
      // Only NVIDIA's GPUs have such a UUID, and only they have CUDA processes.
      if (uuid?.startsWith('GPU-') !== true) return { left: true, moved: [] }
      return await track(leave(device, uuid, signal))
    },
    stay(device: EGpuDevice): void {
      const left = away.get(device.id)
      away.delete(device.id)
      left?.takeBack?.()
      void track(resumeAll(left?.parked ?? []))
    },
    async settled(): Promise<void> {
      await Promise.all(underWay)
    },
  }
}

/** Has a group go on that was parked as a whole, whichever of it have ended since. */
async function resumeGroup(group: Group, options: TransitionOptions = {}): Promise<void> {
  const [process, ...others] = group
  try {
    await process?.resume(options)
  } catch (error) {
    if (others.length === 0 || !EGpuError.is(error, EGpuErrorCode.ProcessNotFound)) throw error
    await resumeGroup(others, options)
  }
}

function namesOf({ processes }: Leaving): string {
  return processes.map(({ name, pid }) => `${name} (pid ${pid})`).join(', ')
}

/** Where the group went; `undefined` when it was parked. */
async function carryOut(
  { processes, ...leaving }: Leaving,
  uuid: string,
  context: CudaContext,
  { onProgress }: CudaGuestOptions,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const [process] = processes as readonly [CudaProcess]
  if (leaving.how !== 'move') {
    await process.park({ signal, onProgress })
    return undefined
  }
  await process.moveTo(leaving.to, { from: uuid, signal, onProgress })
  const now = await processesIn(context, { signal })
  const staying = now.find(({ pid, opens }) => process.group.includes(pid) && opens.includes(uuid))
  if (staying === undefined) return leaving.to
  await staying.park({ signal, onProgress })
  return undefined
}

/** What became of one parked group. */
export type Resumption =
  | { readonly resumed: true; readonly processes: readonly CudaProcess[] }
  | { readonly resumed: false; readonly processes: readonly CudaProcess[]; readonly error: unknown }

/**
 * Puts everybody who is parked back to work, each on the GPU it was parked from: after a re-plug. Those whose GPU is
 * not there stay parked.
 */
export async function resumeParked(
  options: CudaOptions & AbortOptions & { readonly onProgress?: OnProgress | undefined } = {},
): Promise<readonly Resumption[]> {
  const context = new CudaContext(options)
  const { signal, onProgress } = options
  try {
    const processes = await processesIn(context, { signal })
    const parked = processes.filter(({ state }) => state === ProcessState.Checkpointed)
    const resumptions: Resumption[] = []
    for (const groupKey of new Set(parked.map(({ group }) => group.join()))) {
      const group = parked.filter((process) => process.group.join() === groupKey)
      try {
        await resumeGroup(group, { signal, onProgress })
        resumptions.push({ resumed: true, processes: group })
      } catch (error) {
        signal?.throwIfAborted()
        resumptions.push({ resumed: false, processes: group, error })
      }
    }
    return resumptions
  } finally {
    await context.release()
  }
}
