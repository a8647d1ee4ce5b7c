import type { EGpuManager } from '@egpu/core'
import type { CudaPrograms } from './cuda-programs.ts'
import type { MeshPeers } from './mesh-peers.ts'
import type { CableAction, CableView, WorkloadView } from './protocol.ts'

/** What a dashboard shows: this machine, or a simulated one that a visitor may hurt. */
export interface DashboardMachine extends AsyncDisposable {
  readonly name: string
  readonly manager: EGpuManager
  workloads(): readonly WorkloadView[]
  /** Where programs of others may use NVIDIA GPUs. */
  readonly cuda?: CudaPrograms | undefined
  readonly mesh?: MeshPeers | undefined
  readonly simulator?: Simulator | undefined
}

/** Hands on a simulated machine. */
export interface Simulator {
  cables(): readonly CableView[]
  /** Throws `TypeError` for a cable that does not exist or an action that makes no sense now. */
  act(cableId: string, action: CableAction): void
}
