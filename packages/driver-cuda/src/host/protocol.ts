/** One GPU as NVML shows it. With another `result` than 0 (nvmlReturn_t) it could not be reached. */
export interface RawDevice {
  readonly result: number
  /** As NVML writes it: `00000000:06:00.0`. */
  readonly busId?: string | undefined
  /** Device id in the upper 16 bits, vendor id in the lower. */
  readonly pciDeviceId?: number | undefined
  readonly pciSubsystemId?: number | undefined
  readonly uuid?: string | undefined
  readonly name?: string | undefined
  readonly serial?: string | undefined
  readonly memoryTotal?: number | undefined
  /** Of its device node: `/dev/nvidia<minor>`. */
  readonly minor?: number | undefined
}

/** Sensors in NVML's units: degrees Celsius, milliwatts, bytes, percent. */
export interface RawHealth {
  readonly temperature?: number | undefined
  readonly slowdownTemperature?: number | undefined
  readonly powerMilliwatts?: number | undefined
  readonly memoryUsed?: number | undefined
  readonly memoryTotal?: number | undefined
  readonly pcieReplays?: number | undefined
  readonly pcieGeneration?: number | undefined
  readonly pcieMaxGeneration?: number | undefined
  readonly pcieLanes?: number | undefined
  readonly pcieMaxLanes?: number | undefined
  readonly utilization?: number | undefined
}

export interface RawDetails extends RawHealth {
  readonly pcieReceivedKBps?: number | undefined
  readonly pcieSentKBps?: number | undefined
  readonly graphicsMHz?: number | undefined
  readonly smMHz?: number | undefined
  readonly memoryMHz?: number | undefined
  /** Bits of nvmlClocksThrottleReasons. */
  readonly throttleReasons?: number | undefined
  /** Over the life of the board. */
  readonly eccCorrected?: number | undefined
  readonly eccUncorrected?: number | undefined
  readonly retiredPages?: number | undefined
  readonly remappedRows?:
    | {
        readonly corrected?: number
        readonly uncorrected?: number
        readonly pending: boolean
        readonly failed: boolean
      }
    | undefined
  /** nvmlDeviceGpuRecoveryAction_t */
  readonly recoveryAction?: number | undefined
}

/** A process on a GPU. */
export interface RawProcess {
  readonly busId: string
  readonly kind: 'compute' | 'graphics' | 'mps'
  readonly pid: number
  readonly bytes?: number | undefined
  /** Set for a process on a MIG instance. */
  readonly gpuInstance?: number | undefined
}

/** What a process has open of other processes' memory on one GPU. */
export interface RawImport {
  readonly busId: string
  readonly pid: number
  readonly bytes: number
}

/** An event of NVML: type and data as nvml.h defines them. */
export interface RawEvent {
  readonly busId: string
  readonly type: number
  readonly data: number
}

/** What a call of the CUDA driver answered (CUresult) and how long it took. */
export interface StepAnswer {
  readonly result: number
  readonly ms: number
}

interface Pid {
  readonly pid: number
}

/** What native/host.js can be asked: argument and answer of each call. */
export interface HostCalls {
  /** Only loads the library; opens no device. */
  'nvml.load': [undefined, undefined]
  'nvml.list': [undefined, { readonly driverVersion: string | undefined; readonly devices: readonly RawDevice[] }]
  'nvml.health': [{ readonly busId: string; readonly withLink: boolean }, RawHealth]
  'nvml.details': [{ readonly busId: string }, RawDetails]
  'nvml.processes': [undefined, readonly RawProcess[]]
  /** From then on events come by themselves. */
  'nvml.watch': [undefined, undefined]
  /** On every GPU that has been listed. */
  'kernel.imported': [{ readonly pids: readonly number[] }, readonly RawImport[]]
  'cuda.version': [undefined, { readonly version: number | undefined; readonly canCheckpoint: boolean }]
  'cuda.initialize': [undefined, { readonly result: number }]
  'cuda.state': [Pid, { readonly result: number; readonly state: number }]
  'cuda.states': [
    { readonly pids: readonly number[] },
    readonly { readonly pid: number; readonly result: number; readonly state: number }[],
  ]
  'cuda.lock': [Pid & { readonly timeoutMs: number }, StepAnswer]
  'cuda.checkpoint': [Pid, StepAnswer]
  /** `gpuPairs` in hexadecimal. */
  'cuda.restore': [Pid & { readonly gpuPairs: string | undefined }, StepAnswer]
  'cuda.unlock': [Pid, StepAnswer]
  /** A held process is set to work again by the host if we die. */
  'cuda.hold': [Pid & { readonly held: boolean }, undefined]
}

export interface HostConfig {
  readonly nvmlLibrary: string
  readonly cudaLibrary: string
  readonly systemLibrary: string
  readonly devRoot: string
  /** Only these GPUs may be touched; all when absent. */
  readonly busIds: readonly string[] | undefined
}

export type HostReply =
  | { readonly id: number; readonly value?: unknown }
  | { readonly id: number; readonly error: { readonly message: string; readonly nvmlResult?: number | undefined } }
  | { readonly event: RawEvent }
