import type { ProcessFacts } from './proc.ts'

/** Why a process cannot be parked or moved, as data. */
export interface NotCheckpointable {
  readonly code: 'driver-too-old' | 'architecture' | 'other-user' | 'mig' | 'mps' | 'failed-before' | 'hidden'
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
}

const x86 = 62

/**
 * What rules a checkpoint out from the start. Managed (UVM) and shared (IPC) memory cannot be seen from outside; the
 * driver refuses those when it comes to it.
 */
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
  if (now.hasFailed) {
    add('failed-before', 'an earlier checkpoint of it went wrong for good: it has to be stopped and started again')
  }
  return reasons
}
