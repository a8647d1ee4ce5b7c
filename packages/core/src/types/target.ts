import type { DuplexGBps } from './link.ts'

/** Through what a target runs its work. */
export const RuntimeKind = {
  Metal: 'metal',
  WebGpu: 'webgpu',
  Cuda: 'cuda',
  Cpu: 'cpu',
  /** The simulator's own compute. */
  Simulated: 'simulated',
} as const
export type RuntimeKind = (typeof RuntimeKind)[keyof typeof RuntimeKind]

/** Where work can run: a GPU through some runtime, the CPU, another host. */
export interface ComputeTarget {
  /** Unique among the targets of one manager. */
  readonly id: string
  readonly name: string
  readonly kind: 'gpu' | 'cpu' | 'host'
  readonly runtime: RuntimeKind
  /** The `EGpuDevice` it runs on, when one is known. */
  readonly deviceId?: string | undefined
  readonly memoryBytes?: number | undefined
  /** What the runtime promises: WebGPU limits by name, for one. A workload's needs are compared with these. */
  readonly limits?: Readonly<Record<string, number>> | undefined
  readonly features?: readonly string[] | undefined
  /** Which chip it is, where the runtime tells: `gfx1100`, `sm_90`. */
  readonly chip?: string | undefined
  /** Can it vanish with a cable? `undefined` when nothing speaks for or against it. */
  readonly removable: boolean | undefined
  readonly flops?: number | undefined
  readonly memoryGBps?: number | undefined
  readonly linkGBps?: DuplexGBps | undefined
  /** A round trip to the target. */
  readonly latencyMs?: number | undefined
}

/** Why an open target ended. */
export interface TargetLoss {
  readonly reason: 'destroyed' | 'unplugged' | 'reset' | 'hung' | 'process-crash' | 'unknown'
  readonly message: string
  readonly atMs: number
}

/** A target that is open for work. Closing it frees what it holds; closing twice is fine. */
export interface OpenTarget<Handle = unknown> extends AsyncDisposable {
  readonly target: ComputeTarget
  /** Incarnation of the device this handle belongs to. */
  readonly epoch: number
  /** What the runtime works with: a `GPUDevice` for WebGPU, a simulated device, nothing for the CPU. */
  readonly handle: Handle
  /** Resolves, never rejects, once the target can no longer be used: with `destroyed` after `close()`. */
  readonly lost: Promise<TargetLoss>
  close(): Promise<void>
}
