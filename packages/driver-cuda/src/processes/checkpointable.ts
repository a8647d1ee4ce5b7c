import type { ProcessFacts } from './proc.ts'
import type { SharingTraits } from './sharing.ts'

/** Why a process cannot be parked or moved, as data. */
export interface NotCheckpointable {
  readonly code:
    | 'driver-too-old'
    | 'architecture'
    | 'other-user'
    | 'mig'
    | 'mps'
    | 'uvm'
    | 'ipc'
    | 'failed-before'
    | 'hidden'
  /** What is in the way and what to do about it. */
  readonly reason: string
}

export interface Circumstances {
  readonly driverVersion: string | undefined
  readonly canCheckpoint: boolean
  readonly facts: ProcessFacts | undefined
  readonly elfMachine: number | undefined
  readonly architecture: string
  readonly uid: number | undefined
  readonly isOnInstance: boolean
  readonly isMpsClient: boolean
  readonly hasFailed: boolean
  readonly sharing: SharingTraits
  /** What it has open of other processes' GPU memory; `undefined` when the kernel driver does not say. */
  readonly importedBytes: number | undefined
  /** Processes that have memory of others open on one of its GPUs. */
  readonly importers: readonly number[]
  /** Whether another process could share memory with it at all. */
  readonly hasNeighbours: boolean
}

const x86 = 62

/** What rules a checkpoint out from the start: afterwards it would be too late. */
export function whyNotCheckpointable(now: Circumstances): readonly NotCheckpointable[] {
  const reasons: NotCheckpointable[] = []
  const add = (code: NotCheckpointable['code'], reason: string): void => void reasons.push({ code, reason })
  const { facts } = now
  if (!now.canCheckpoint) {
    const version = now.driverVersion ?? 'this version'
    add('driver-too-old', `NVIDIA's driver ${version} cannot checkpoint processes; 570 and later can: update it`)
  }
  if (facts === undefined) {
    add('hidden', 'its /proc entry cannot be read; it may belong to another container: do this on the host')
  }
  if (now.architecture !== 'x64' || (now.elfMachine !== undefined && now.elfMachine !== x86)) {
    add('architecture', 'NVIDIA checkpoints 64-bit x86 programs on x86 machines only; stop the program instead')
  }
  if (facts?.uid !== undefined && now.uid !== 0 && now.uid !== facts.uid) {
    add('other-user', 'it belongs to another user: run this as that user or as root')
  }
  if (now.isOnInstance)
    add('mig', 'it runs on a MIG instance, which NVIDIA cannot checkpoint: stop the program instead')
  if (now.isMpsClient) add('mps', 'it runs through MPS, which NVIDIA cannot checkpoint: stop the program instead')
  if (now.sharing.hasManagedMemory)
    add('uvm', 'it uses managed memory (UVM), which NVIDIA cannot checkpoint: stop the program instead')
  const shared = whyShared(now)
  if (shared !== undefined) add('ipc', shared)
  if (now.hasFailed) {
    add('failed-before', 'an earlier checkpoint of it went wrong for good: it has to be stopped and started again')
  }
  return reasons
}

/**
 * The driver parks a process that has memory of another open without complaint, and can then never restore it (seen
 * with 580; github.com/NVIDIA/cuda-checkpoint/issues/56). So what is not known to be unshared counts as shared.
 */
function whyShared({ importedBytes, importers, sharing, hasNeighbours }: Circumstances): string | undefined {
  const instead = 'NVIDIA could not restore that: stop the program instead'
  if (importedBytes !== undefined && importedBytes > 0)
    return `it has ${importedBytes} bytes of another process's GPU memory open (CUDA IPC), and ${instead}`
  if (importers.length > 0)
    return `process ${importers.join(', ')} has GPU memory of others open (CUDA IPC), perhaps of this one, and ${instead}`
  if (sharing.sharesEvents) return `it shares CUDA events with other processes (CUDA IPC), and ${instead}`
  if (sharing.sharesThroughNccl)
    return 'NCCL shares host memory between its processes, and NVIDIA could not restore that: start it with `egpu run`, or with NCCL_CUMEM_HOST_ENABLE=0 NCCL_CUMEM_ENABLE=0 NCCL_P2P_DISABLE=1'
  if (importedBytes === undefined && hasNeighbours)
    return 'whether it shares GPU memory with other processes cannot be seen with this driver: stop the others, or this one'
  return undefined
}
