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
  const lack = lackOfHostRoom(context, leavers)
  if (lack === undefined) return
  throw new EGpuError(
    EGpuErrorCode.TargetIncompatible,
    `${lack.leaver.name} (pid ${lack.leaver.pid}) was left on its GPU: ${lack.reason}`,
    { driver: 'cuda' },
  )
}

/** Whose memory cannot take what leaves the GPUs, and why; `undefined` when everything fits. */
export function lackOfHostRoom(
  context: CudaContext,
  leavers: readonly Leaver[],
): { readonly leaver: Leaver; readonly reason: string } | undefined {
  if (!context.checkHostMemory) return undefined
  const needed = leavers.flatMap(({ memory }) => memory).reduce((sum, { bytes = 0 }) => sum + bytes, 0)
  for (const leaver of leavers) {
    const available = availableHostBytes(context, leaver.pid)
    if (available === undefined || available >= needed) continue
    const reason = `${needed} bytes of host memory are needed and ${available} can be had; close something, or raise the memory limit of its control group`
    return { leaver, reason }
  }
  return undefined
}
