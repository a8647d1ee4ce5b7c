import { EGpuError, EGpuErrorCode } from '@egpu/core'

/** Whether an error, or what caused it, says that the device is gone. */
export function saysLost(error: unknown): boolean {
  for (let cause = error, depth = 0; cause !== undefined && depth < 8; depth += 1) {
    if (EGpuError.is(cause, EGpuErrorCode.DeviceLost)) return true
    cause = cause instanceof Error ? cause.cause : undefined
  }
  return false
}

/** Errors of a workload's own code get a code; ours keep theirs. */
export function asWorkloadFailure(workloadId: string, doing: string, error: unknown): EGpuError {
  if (EGpuError.is(error)) return error
  return new EGpuError(EGpuErrorCode.WorkloadFailed, `${workloadId} failed in ${doing}: ${messageOf(error)}`, {
    cause: error,
  })
}

/** What can be said about anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
