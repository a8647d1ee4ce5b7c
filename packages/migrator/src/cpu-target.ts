import { RuntimeKind } from '@egpu/core'
import type { ComputeTarget, OpenTarget, TargetLoss } from '@egpu/core'

export interface CpuTargetOptions {
  /** `cpu` unless the application keeps several apart. */
  readonly id?: string | undefined
  readonly name?: string | undefined
  /** How much memory work may take. Left out, a workload's `memoryBytes` is not checked. */
  readonly memoryBytes?: number | undefined
  /** Floating-point operations per second, where known. */
  readonly flops?: number | undefined
  readonly memoryGBps?: number | undefined
}

/**
 * The processor as a place to run: it is always there and is never lost. Its handle is `undefined`. The migrator opens
 * one by itself for workloads whose `needs.runtimes` has `cpu`.
 */
export function cpuTarget(options: CpuTargetOptions = {}): OpenTarget<undefined> {
  const target: ComputeTarget = {
    id: options.id ?? 'cpu',
    name: options.name ?? 'CPU',
    kind: 'cpu',
    runtime: RuntimeKind.Cpu,
    removable: false,
    memoryBytes: options.memoryBytes,
    flops: options.flops,
    memoryGBps: options.memoryGBps,
    latencyMs: 0,
  }
  let end: (loss: TargetLoss) => void
  const lost = new Promise<TargetLoss>((resolve) => {
    end = resolve
  })
  const close = (): Promise<void> => {
    end({ reason: 'destroyed', message: 'the CPU target was closed', atMs: performance.now() })
    return Promise.resolve()
  }
  return { target, epoch: 0, handle: undefined, lost, close, [Symbol.asyncDispose]: close }
}
