import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import { readBoundGpus } from '../bound-gpus.ts'
import { CudaResult, stateNamed } from '../checkpoint/results.ts'
import type { ProcessState } from '../checkpoint/results.ts'
import type { CudaContext } from '../context.ts'
import type { RawImport, RawProcess } from '../host/protocol.ts'
import { nvmlError } from '../nvml/failure.ts'
import type { SeenGpu } from '../nvml/observe.ts'
import { whyNotCheckpointable } from './checkpointable.ts'
import type { NotCheckpointable } from './checkpointable.ts'
import { groupsOf } from './groups.ts'
import { heldMinors } from './device-nodes.ts'
import { elfMachine, hasEnded, readProcess, userNames } from './proc.ts'
import type { ProcessFacts } from './proc.ts'
import { sharingOf } from './sharing.ts'

/** What is known of one CUDA process at one moment. */
export interface CudaProcessFacts {
  readonly pid: number
  /** Clock ticks since boot: with the pid it names this process and no later one. */
  readonly startTime: string
  readonly name: string
  /** Empty when it cannot be read. */
  readonly command: readonly string[]
  readonly user: string | undefined
  readonly parentPid: number | undefined
  /** What it holds on each GPU; for a parked process, what it held. `bytes` is `undefined` where NVML does not say. */
  readonly memory: readonly { readonly uuid: string; readonly bytes: number | undefined }[]
  /**
   * GPUs whose device node it has open, by UUID: each of them is in use until it lets go. A CUDA program opens all that
   * it may see, so it may be more than it computes on; `CUDA_VISIBLE_DEVICES` limits it. Empty while it is parked, and
   * for another user's program, which only root can look into.
   */
  readonly opens: readonly string[]
  /**
   * As the driver says. Where it cannot be asked without waking a GPU, who was parked by this package and is on no GPU
   * that is awake is `checkpointed`, and everybody else `undefined`.
   */
  readonly state: ProcessState | undefined
  readonly checkpointable:
    | { readonly possible: true }
    | { readonly possible: false; readonly reasons: readonly NotCheckpointable[] }
  /** Pids of all CUDA processes that are parked and moved together, itself among them. */
  readonly group: readonly number[]
}

export interface Survey {
  readonly gpus: ReadonlyMap<string, SeenGpu>
  readonly driverVersion: string | undefined
  /** `13000` for CUDA 13.0. */
  readonly cudaVersion: number | undefined
  readonly processes: readonly CudaProcessFacts[]
}

/** Everybody who computes on a GPU, and everybody who is parked. */
export async function survey(context: CudaContext, { signal }: AbortOptions): Promise<Survey> {
  const { gpus, driverVersion } = await context.gpus.look({ signal })
  const computing = gpus.size === 0 ? [] : await computingOn(context, { signal })
  const noted = context.journal
    .entries()
    .filter(({ pid, startTime }) => readProcess(context.procRoot, pid)?.startTime === startTime)
  const pids = [...new Set([...computing, ...noted].map(({ pid }) => pid))]
    .filter((pid) => !hasEnded(context.procRoot, pid))
    .sort((a, b) => a - b)
  const { version, canCheckpoint, states } = await askDriver(context, pids, signal)
  const imports = pids.length === 0 ? [] : await askKernel(context, pids, signal)
  const facts = new Map<number, ProcessFacts | undefined>()
  const read = (pid: number): ProcessFacts | undefined => {
    if (!facts.has(pid)) facts.set(pid, readProcess(context.procRoot, pid))
    return facts.get(pid)
  }
  const groups = groupsOf(pids, read)
  const nameOf = userNames()
  const processes = pids.map((pid): CudaProcessFacts => {
    const own = computing.filter((holding) => holding.pid === pid)
    const entry = noted.find((one) => one.pid === pid)
    const memory = own.length > 0 ? memoryOf(own, (busId) => context.gpus.uuidOf(busId)) : (entry?.gpus ?? [])
    const minors = heldMinors(context, pid)
    const reasons = whyNotCheckpointable({
      driverVersion,
      canCheckpoint,
      facts: read(pid),
      elfMachine: elfMachine(context.procRoot, pid),
      architecture: process.arch,
      uid: process.geteuid?.(),
      isOnInstance: own.some(({ gpuInstance }) => gpuInstance !== undefined),
      isMpsClient: own.some(({ kind }) => kind === 'mps'),
      hasFailed: states.get(pid) === 'failed',
      sharing: sharingOf(context, pid),
      importedBytes: imports?.filter((one) => one.pid === pid).reduce((sum, { bytes }) => sum + bytes, 0),
      importers: (imports ?? [])
        .filter((one) => one.bytes > 0 && one.pid !== pid && own.some(({ busId }) => busId === one.busId))
        .map((one) => one.pid),
      hasNeighbours: pids.some((other) => other !== pid && read(other)?.uid === read(pid)?.uid),
    })
    return {
      ...described(pid, read(pid), nameOf),
      memory,
      opens: [...gpus].filter(([, { minor }]) => minor !== undefined && minors.has(minor)).map(([uuid]) => uuid),
      state: states.get(pid) ?? (entry?.goal === 'parked' && own.length === 0 ? 'checkpointed' : undefined),
      checkpointable: reasons.length === 0 ? { possible: true } : { possible: false, reasons },
      group: groups.get(pid) ?? [pid],
    }
  })
  return { gpus, driverVersion, cudaVersion: version, processes: await stillThere(context, processes, { signal }) }
}

/** Who ended while it was looked at: what was read of it meanwhile would make it look like one that cannot be parked. */
async function stillThere(
  context: CudaContext,
  processes: readonly CudaProcessFacts[],
  { signal }: AbortOptions,
): Promise<readonly CudaProcessFacts[]> {
  const there = processes.filter(({ pid, startTime }) =>
    startTime === '' ? !hasEnded(context.procRoot, pid) : readProcess(context.procRoot, pid)?.startTime === startTime,
  )
  if (there.every(({ startTime }) => startTime !== '')) return there
  // One that /proc never showed has ended, or belongs to another container: NVML goes on listing the latter.
  const listed = new Set((await computingOn(context, { signal })).map(({ pid }) => pid))
  return there.filter(({ pid, startTime }) => startTime !== '' || listed.has(pid))
}

/** Everybody who computes on a GPU that is awake, with what NVML says of it. */
export async function computingOn(context: CudaContext, { signal }: AbortOptions): Promise<readonly RawProcess[]> {
  try {
    const holdings = await context.gpus.use((host) => host.call('nvml.processes', undefined, { signal }))
    return holdings.filter(({ kind }) => kind !== 'graphics')
  } catch (error) {
    throw nvmlError(error)
  }
}

/** Asking for one takes well under a millisecond; a machine may be busy. */
const msPerState = 50

/** Initialising CUDA wakes every GPU, so a machine with one asleep is not asked for states. */
async function askDriver(
  context: CudaContext,
  pids: readonly number[],
  signal: AbortSignal | undefined,
): Promise<{ version: number | undefined; canCheckpoint: boolean; states: ReadonlyMap<number, ProcessState> }> {
  const states = new Map<number, ProcessState>()
  const mayInitialize = readBoundGpus(context.sysfsRoot)?.some(({ isSuspended }) => isSuspended) !== true
  return await context.cuda.use(undefined, async (host) => {
    const { version, canCheckpoint } = await host.call('cuda.version', undefined, { signal })
    if (!canCheckpoint || pids.length === 0 || !mayInitialize) return { version, canCheckpoint, states }
    const { result } = await host.call('cuda.initialize', undefined, {
      signal,
      timeoutMs: context.initializeTimeoutMs,
    })
    if (result !== CudaResult.Success) return { version, canCheckpoint, states }
    const answers = await host.call('cuda.states', { pids }, { signal, timeoutMs: 5_000 + pids.length * msPerState })
    for (const { pid, result: answer, state } of answers) {
      const named = stateNamed(state)
      if (answer === CudaResult.Success && named !== undefined) states.set(pid, named)
    }
    return { version, canCheckpoint, states }
  })
}

/** Who has memory of others open; `undefined` when this driver cannot be asked. */
export async function askKernel(
  context: CudaContext,
  pids: readonly number[],
  signal: AbortSignal | undefined,
): Promise<readonly RawImport[] | undefined> {
  try {
    return await context.gpus.use((host) => host.call('kernel.imported', { pids }, { signal }))
  } catch (error) {
    signal?.throwIfAborted()
    if (EGpuError.is(error, EGpuErrorCode.Timeout)) throw error
    return undefined
  }
}

function described(
  pid: number,
  facts: ProcessFacts | undefined,
  nameOf: (uid: number) => string,
): Pick<CudaProcessFacts, 'pid' | 'startTime' | 'name' | 'command' | 'user' | 'parentPid'> {
  if (facts === undefined) {
    return { pid, startTime: '', name: 'hidden', command: [], user: undefined, parentPid: undefined }
  }
  const { startTime, name, command, uid, parentPid } = facts
  return { pid, startTime, name, command, user: uid === undefined ? undefined : nameOf(uid), parentPid }
}

export function memoryOf(
  holdings: readonly RawProcess[],
  uuidOf: (busId: string) => string | undefined,
): { uuid: string; bytes: number | undefined }[] {
  const memory = new Map<string, number | undefined>()
  for (const { busId, bytes } of holdings) {
    const uuid = uuidOf(busId)
    if (uuid !== undefined) memory.set(uuid, bytes === undefined ? memory.get(uuid) : (memory.get(uuid) ?? 0) + bytes)
  }
  return [...memory].map(([uuid, bytes]) => ({ uuid, bytes }))
}
