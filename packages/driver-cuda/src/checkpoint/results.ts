import { EGpuError, EGpuErrorCode } from '@egpu/core'

/** CUresult of cuda.h, as far as the checkpoint calls answer it. */
export const CudaResult = {
  Success: 0,
  InvalidValue: 1,
  OutOfMemory: 2,
  NotInitialized: 3,
  DeviceUnavailable: 46,
  NoDevice: 100,
  InvalidDevice: 101,
  OperatingSystem: 304,
  IllegalState: 401,
  NotReady: 600,
  NotPermitted: 800,
  NotSupported: 801,
  Unknown: 999,
} as const

/** CUprocessState; the two last exist since CUDA 13.3. */
export const ProcessState = {
  Running: 'running',
  Locked: 'locked',
  Checkpointed: 'checkpointed',
  Failed: 'failed',
  Checkpointing: 'checkpointing',
  Restoring: 'restoring',
} as const
export type ProcessState = (typeof ProcessState)[keyof typeof ProcessState]

const states: readonly ProcessState[] = Object.values(ProcessState)

export function stateNamed(value: number): ProcessState | undefined {
  return states[value]
}

export type StepName = 'lock' | 'checkpoint' | 'restore' | 'unlock'

const names: ReadonlyMap<number, string> = new Map(Object.entries(CudaResult).map(([name, value]) => [value, name]))

/** A step of the driver that failed. `result` is its CUresult; the process is in the state it was found in afterwards. */
export class StepFailure extends Error {
  readonly step: StepName | 'state'
  readonly pid: number
  readonly result: number
  readonly state: ProcessState | undefined

  constructor(step: StepName | 'state', pid: number, result: number, state: ProcessState | undefined) {
    const found = state === undefined ? '' : `; the process is ${state}`
    super(`${step} of process ${pid} answered ${result} (${names.get(result) ?? 'see CUresult in cuda.h'})${found}`)
    this.step = step
    this.pid = pid
    this.result = result
    this.state = state
  }
}

interface Meaning {
  readonly code: EGpuErrorCode
  readonly text: string
}

/** The failure as an error of this SDK; anything else is handed back as it is. */
export function stepError(error: unknown, what: string): unknown {
  if (!(error instanceof StepFailure)) return error
  const { code, text } = meaningOf(error)
  return new EGpuError(code, `${what}: ${text} [${error.message}]`, { cause: error, driver: 'cuda' })
}

function meaningOf({ step, pid, result, state }: StepFailure): Meaning {
  if (state === ProcessState.Failed) {
    return { code: EGpuErrorCode.MigrationFailed, text: `process ${pid} is beyond repair; start it again` }
  }
  switch (result) {
    case CudaResult.NotReady:
      return {
        code: EGpuErrorCode.Timeout,
        text: `process ${pid} did not come to rest in time: its work on the GPU takes longer; try again, or allow it more time`,
      }
    case CudaResult.NotSupported:
      return {
        code: EGpuErrorCode.NotSupported,
        text: `process ${pid} uses something the driver cannot checkpoint, such as managed (UVM) or shared (IPC) memory; stop it instead`,
      }
    case CudaResult.NotPermitted:
      return {
        code: EGpuErrorCode.PermissionDenied,
        text: `process ${pid} may not be traced by us: run this as its user or as root, and look at /proc/sys/kernel/yama/ptrace_scope`,
      }
    case CudaResult.OutOfMemory:
      // github.com/NVIDIA/cuda-checkpoint/issues/44
      if (step === 'restore') {
        return {
          code: EGpuErrorCode.MigrationFailed,
          text: `the GPU ran out of memory while process ${pid} was put back, and NVIDIA's driver does not try that twice: start it again`,
        }
      }
      return {
        code: EGpuErrorCode.TargetIncompatible,
        text: `there is not enough memory for process ${pid}: free some and try again`,
      }
    case CudaResult.InvalidDevice:
    case CudaResult.NoDevice:
    case CudaResult.DeviceUnavailable:
      return {
        code: EGpuErrorCode.DeviceNotFound,
        text: `the GPU for process ${pid} is not there: plug it in and try again`,
      }
    case CudaResult.IllegalState:
      return {
        code: EGpuErrorCode.DeviceBusy,
        text: `somebody else is moving process ${pid}; wait until that has ended`,
      }
    default:
      return {
        code: EGpuErrorCode.MigrationFailed,
        text: `the driver refused ${step === 'state' ? 'to look at' : `to ${step}`} process ${pid}`,
      }
  }
}
