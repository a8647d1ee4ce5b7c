import type { OpenTarget } from '@egpu/core'
import { RuntimeKind } from '@egpu/core'
import type { SimGpu } from '@egpu/driver-sim'
import { cpuEngine } from './cpu-engine.ts'
import { simEngine } from './sim-engine.ts'
import { webGpuEngine } from './webgpu-engine.ts'

/** The field's bytes, taken between two steps; reading them may take its time while the engine works on. */
export interface EngineCopy {
  read(options: { readonly signal?: AbortSignal | undefined }): Promise<Uint8Array>
  dispose(): PromiseLike<void>
}

/** The field on one kind of target. Calls are made one after another. */
export interface FieldEngine {
  load(field: Uint8Array, signal: AbortSignal): Promise<void>
  /** Resolves when the steps are done on the target; rejects when the device is lost. */
  advance(steps: number): Promise<void>
  copy(signal: AbortSignal): Promise<EngineCopy>
  /** The field as it is now, without taking memory for a copy. */
  read(): Promise<Uint8Array>
}

/** The engine for a target's runtime. */
export function engineFor(
  target: OpenTarget,
  size: number,
  afterCpuSteps: (steps: number) => Promise<void>,
): FieldEngine {
  switch (target.target.runtime) {
    case RuntimeKind.WebGpu:
      return webGpuEngine(target as OpenTarget<GPUDevice>, size)
    case RuntimeKind.Simulated:
      return simEngine(target.handle as SimGpu, size)
    case RuntimeKind.Cpu:
      return cpuEngine(size, afterCpuSteps)
    case RuntimeKind.Cuda:
    case RuntimeKind.Metal:
      throw new TypeError(`the field has no code for ${target.target.runtime}`)
  }
}
