import type { AbortOptions } from '@egpu/core'
import { lackOfHostRoom } from './checkpoint/host-room.ts'
import { canMove } from './checkpoint/mapping.ts'
import { ProcessState } from './checkpoint/results.ts'
import { CudaContext } from './context.ts'
import type { CudaOptions } from './context.ts'
import { bytesOf, surveyed } from './cuda-process.ts'
import type { CudaProcess } from './cuda-process.ts'
import type { SeenGpu } from './nvml/observe.ts'

/** What would become of programs that are stopped together, if their GPU had to go. */
export type Leaving = { readonly processes: readonly CudaProcess[]; readonly bytes: number } & (
  | { readonly how: 'move'; readonly to: string }
  /** Into host memory, until they are resumed. */
  | { readonly how: 'park' }
  /** They stay, and with them the GPU. */
  | { readonly how: 'stay'; readonly reason: string }
)

export interface LeavingOptions {
  /** Whether a GPU, by UUID, may take what has to leave another. All may by default. */
  readonly mayMoveTo?: ((uuid: string) => boolean) | undefined
  /** Park even where there is an equal GPU. Off by default. */
  readonly alwaysPark?: boolean | undefined
}

/**
 * Says for every CUDA program that keeps a GPU (a UUID) from leaving what `cudaGuest` would do with it. Stops nobody,
 * wakes nothing. Rejects like `listCudaProcesses`.
 */
export async function planCudaLeave(
  gpu: string,
  options: CudaOptions & LeavingOptions & AbortOptions = {},
): Promise<readonly Leaving[]> {
  if (!gpu.startsWith('GPU-')) throw new TypeError(`${gpu} is not the UUID of an NVIDIA GPU, which begins with GPU-`)
  const context = new CudaContext(options)
  try {
    return await planIn(context, gpu, options)
  } finally {
    await context.release()
  }
}

export async function planIn(
  context: CudaContext,
  uuid: string,
  options: LeavingOptions & AbortOptions,
): Promise<readonly Leaving[]> {
  const { processes, gpus, cudaVersion } = await surveyed(context, options)
  const isOn = (process: CudaProcess): boolean =>
    process.state !== ProcessState.Checkpointed && process.memory.some((one) => one.uuid === uuid)
  const groups = new Map<string, readonly CudaProcess[]>()
  for (const process of processes.filter(isOn)) {
    groups.set(
      process.group.join(),
      processes.filter(({ pid, state }) => process.group.includes(pid) && state !== ProcessState.Checkpointed),
    )
  }
  const promised = new Map<string, number>()
  const leavings: Leaving[] = []
  const alwaysPark = options.alwaysPark === true || !canMove(cudaVersion)
  for (const group of groups.values())
    leavings.push(await planGroup(context, { uuid, gpus }, group, { ...options, alwaysPark }, promised))
  const leaving = new Set([...groups.values()].flat())
  for (const process of processes) {
    if (leaving.has(process) || !process.opens.includes(uuid)) continue
    leavings.push({ processes: [process], bytes: bytesOf(process.memory), how: 'stay', reason: openAsWell })
  }
  return leavings
}

const openAsWell =
  'it computes on another GPU but has this one open as well, as CUDA does with every GPU that a program may see: end it, or start it with `egpu run --gpu` or CUDA_VISIBLE_DEVICES'

/** The GPU that is to go, among all that are there. */
interface Source {
  readonly uuid: string
  readonly gpus: ReadonlyMap<string, SeenGpu>
}

async function planGroup(
  context: CudaContext,
  { uuid, gpus }: Source,
  processes: readonly CudaProcess[],
  { mayMoveTo = () => true, alwaysPark = false, signal }: LeavingOptions & AbortOptions,
  promised: Map<string, number>,
): Promise<Leaving> {
  const bytes = processes.reduce((sum, { memory }) => sum + bytesOf(memory), 0)
  const reasons = processes.flatMap(({ checkpointable }) =>
    checkpointable.possible ? [] : checkpointable.reasons.map(({ reason }) => reason),
  )
  if (reasons.length > 0) return { processes, bytes, how: 'stay', reason: [...new Set(reasons)].join('; ') }
  // On its way to another GPU it is in host memory as well.
  const lack = lackOfHostRoom(context, processes)
  if (lack !== undefined) return { processes, bytes, how: 'stay', reason: lack.reason }
  if (alwaysPark) return { processes, bytes, how: 'park' }
  const needed = processes.reduce((sum, { memory }) => sum + bytesOf(memory.filter((one) => one.uuid === uuid)), 0)
  const to = await equalGpu(context, { uuid, gpus }, processes, mayMoveTo, { needed, promised, signal })
  if (to === undefined) return { processes, bytes, how: 'park' }
  promised.set(to, (promised.get(to) ?? 0) + needed)
  return { processes, bytes, how: 'move', to }
}

/**
 * A GPU of the same kind, awake, with the most room, if that is enough. One that the group has open already would change
 * places with the one that is to be freed, which then stays open.
 */
async function equalGpu(
  context: CudaContext,
  { uuid, gpus }: Source,
  group: readonly CudaProcess[],
  mayMoveTo: (uuid: string) => boolean,
  { needed, promised, signal }: AbortOptions & { needed: number; promised: ReadonlyMap<string, number> },
): Promise<string | undefined> {
  const source = gpus.get(uuid)?.observation
  if (source === undefined) return undefined
  let best: { readonly uuid: string; readonly free: number } | undefined
  for (const [candidate, gpu] of gpus) {
    const { gpu: kind, stage, powerState } = gpu.observation
    const isEqual = kind.deviceId === source.gpu.deviceId && kind.name === source.gpu.name && candidate !== uuid
    const isAvailable = stage === 'ready' && powerState !== 'suspended' && mayMoveTo(candidate)
    const isOpen = group.some(({ opens }) => opens.includes(candidate))
    if (!isEqual || !isAvailable || isOpen) continue
    const free = ((await context.gpus.freeBytes(gpu, { signal })) ?? 0) - (promised.get(candidate) ?? 0)
    if (free >= needed && free > (best?.free ?? 0)) best = { uuid: candidate, free }
  }
  return best?.uuid
}
