import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { CudaContext } from '../context.ts'
import { availableHostBytes } from '../processes/host-memory.ts'

interface Leaver {
  readonly pid: number
  readonly name: string
  readonly memory: readonly { readonly bytes: number | undefined }[]
}

/**
 * What leaves the GPUs has to fit into the processes' own memory. Throws `EGPU_TARGET_INCOMPATIBLE`; where the context
 * does not want this checked, everything fits.
 */
export function assertHostRoom(context: CudaContext, leavers: readonly Leaver[]): void {
  if (!context.checkHostMemory) return
  const needed = leavers.flatMap(({ memory }) => memory).reduce((sum, { bytes = 0 }) => sum + bytes, 0)
  for (const { pid, name } of leavers) {
    const available = availableHostBytes(context, pid)
    if (available === undefined || available >= needed) continue
    throw new EGpuError(
      EGpuErrorCode.TargetIncompatible,
      `${name} (pid ${pid}) was left on its GPU: ${needed} bytes of host memory are needed and ${available} can be had; ` +
        'close something, or raise the memory limit of its control group',
      { driver: 'cuda' },
    )
  }
}
