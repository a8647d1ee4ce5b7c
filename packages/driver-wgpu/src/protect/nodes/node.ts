import type { Core } from '../core.ts'

/** Any WebGPU object whose methods are looked up by name. */
export type Methods = Record<string, (...args: readonly unknown[]) => unknown>

/**
 * What is known of one WebGPU object apart from any device: enough to make it again on the next one. The application
 * holds a handle, the handle holds its node, and nodes and recorded commands hold the nodes they use; so a node lives
 * exactly as long as something may still need it.
 */
export abstract class Node<Real extends object = object> {
  readonly core: Core
  /** Place in the order of everything that was ever done with the device; what a node uses has a lower one. */
  readonly seq: number
  /** The object on the current device. */
  real: Real
  label: string

  constructor(core: Core, real: Real, label: string) {
    this.core = core
    this.seq = core.nextSeq()
    this.real = real
    this.label = label
  }

  /** Makes the object anew. What it uses was made before. */
  abstract build(device: GPUDevice): Real

  /** Puts a fresh object on `device` in the place of the dead one. */
  rebuild(device: GPUDevice): void {
    this.real = this.build(device)
    const real = this.real as { label?: unknown }
    if (real.label !== this.label) real.label = this.label
  }
}
