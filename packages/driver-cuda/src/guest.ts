import { EGpuError } from '@egpu/core'
import type { AbortOptions, EGpuDevice, Guest, LeaveResult } from '@egpu/core'
import { CudaContext } from './context.ts'
import type { CudaOptions } from './context.ts'
import { bytesOf, processesIn } from './cuda-process.ts'
import type { CudaProcess } from './cuda-process.ts'
import type { OnProgress } from './checkpoint/progress.ts'
import { ProcessState } from './checkpoint/results.ts'
import type { CudaDriver } from './driver.ts'

export interface CudaGuestOptions extends CudaOptions {
  /** The manager's own `cudaDriver()`: it lets go of the GPU's device node along with the processes. */
  readonly driver?: CudaDriver | undefined
  /** Whether a GPU, by UUID, may take what has to leave another. All may by default. */
  readonly mayMoveTo?: ((uuid: string) => boolean) | undefined
  /** Park even where there is an equal GPU. Off by default. */
  readonly alwaysPark?: boolean | undefined
  readonly onProgress?: OnProgress | undefined
  /** Hears of a process that could not be brought back after the disconnect was called off. */
  readonly onError?: ((error: unknown) => void) | undefined
}

/**
 * Has the CUDA processes of a GPU leave before it is disconnected: `manager.addGuest(cudaGuest({ driver }))`. They move
 * to an equal GPU with room if there is one, else they are parked in host memory until `resumeParked()`. One that can
 * do neither is a veto, and those that had left come back.
 */
export function cudaGuest(options: CudaGuestOptions = {}): Guest {
  const context = new CudaContext(options)
  /** What a call-off has to undo, by the device that was to go. */
  const away = new Map<string, { readonly parked: CudaProcess[]; readonly takeBack: (() => void) | undefined }>()

  const stay = (device: EGpuDevice): void => {
    const left = away.get(device.id)
    away.delete(device.id)
    left?.takeBack?.()
    for (const process of left?.parked ?? []) {
      process.resume().catch((error: unknown) => options.onError?.(error))
    }
  }

  return {
    name: 'cuda',
    async leave(device, { signal }): Promise<LeaveResult> {
      const { uuid } = device.identity
      // Only NVIDIA's GPUs have such a UUID, and only they have CUDA processes.
      if (uuid?.startsWith('GPU-') !== true) return { left: true, moved: [] }
      const parked: CudaProcess[] = []
      const moved: string[] = []
      try {
        for (const group of await groupsOn(context, uuid, signal)) {
          signal?.throwIfAborted()
          const what = group.map(({ name, pid }) => `${name} (pid ${pid})`).join(', ')
          const where = await leaveWith(group, uuid, context, options, signal)
          if (where === undefined) parked.push(...group.slice(0, 1))
          moved.push(where === undefined ? `${what}: parked in host memory` : `${what}: moved to ${where}`)
        }
      } catch (error) {
        for (const process of parked) await process.resume().catch((problem: unknown) => options.onError?.(problem))
        signal?.throwIfAborted()
        if (!EGpuError.is(error)) throw error
        return { left: false, reason: error.message }
      } finally {
        await context.release()
      }
      const takeBack = await options.driver?.release(uuid)
      away.set(device.id, { parked, takeBack })
      return { left: true, moved }
    },
    stay,
  }
}

/** Where the group went; `undefined` when it was parked. */
async function leaveWith(
  group: readonly CudaProcess[],
  uuid: string,
  context: CudaContext,
  { mayMoveTo = () => true, alwaysPark = false, onProgress }: CudaGuestOptions,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const [process] = group as [CudaProcess]
  const target = alwaysPark ? undefined : await equalGpu(context, uuid, group, mayMoveTo, signal)
  if (target === undefined) {
    await process.park({ signal, onProgress })
    return undefined
  }
  await process.moveTo(target, { from: uuid, signal, onProgress })
  return target
}

/** The running ones, each group once. */
async function groupsOn(
  context: CudaContext,
  uuid: string,
  signal: AbortSignal | undefined,
): Promise<readonly (readonly CudaProcess[])[]> {
  const processes = await processesIn(context, { signal })
  const isOn = (process: CudaProcess): boolean =>
    process.state !== ProcessState.Checkpointed && process.memory.some((one) => one.uuid === uuid)
  const groups = new Map<string, readonly CudaProcess[]>()
  for (const process of processes.filter(isOn)) {
    groups.set(
      process.group.join(),
      processes.filter(({ pid }) => process.group.includes(pid)),
    )
  }
  return [...groups.values()]
}

/** A GPU of the same kind, awake, with the most room, if that is enough. */
async function equalGpu(
  context: CudaContext,
  uuid: string,
  group: readonly CudaProcess[],
  mayMoveTo: (uuid: string) => boolean,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const { gpus } = await context.gpus.look({ signal })
  const source = gpus.get(uuid)?.observation
  if (source === undefined) return undefined
  const needed = group.reduce((sum, { memory }) => sum + bytesOf(memory.filter((one) => one.uuid === uuid)), 0)
  let best: { readonly uuid: string; readonly free: number } | undefined
  for (const [candidate, { observation, busId }] of gpus) {
    const isEqual =
      observation.gpu.deviceId === source.gpu.deviceId && observation.gpu.name === source.gpu.name && candidate !== uuid
    const isAvailable = observation.stage === 'ready' && observation.powerState !== 'suspended' && mayMoveTo(candidate)
    if (!isEqual || !isAvailable) continue
    const { memoryTotal = 0, memoryUsed = 0 } = await context.gpus.use((host) =>
      host.call('nvml.health', { busId }, { signal }),
    )
    const free = memoryTotal - memoryUsed
    if (free >= needed && free > (best?.free ?? 0)) best = { uuid: candidate, free }
  }
  return best?.uuid
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
        await group[0]?.resume({ signal, onProgress })
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
