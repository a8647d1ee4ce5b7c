import type { Core } from '../core.ts'
import { Node } from './node.ts'
import type { Recording } from './recording.ts'
import { labelOf } from './recipe.ts'

/** A render bundle, made again by encoding its commands again. */
export class BundleNode extends Node<GPURenderBundle> {
  readonly recording: Recording
  readonly #encoderDescriptor: GPURenderBundleEncoderDescriptor
  readonly #finishArgs: readonly unknown[]

  constructor(
    core: Core,
    recording: Recording,
    encoderDescriptor: GPURenderBundleEncoderDescriptor,
    finishArgs: readonly unknown[],
    real: GPURenderBundle,
  ) {
    super(core, real, labelOf(finishArgs))
    this.recording = recording
    this.#encoderDescriptor = encoderDescriptor
    this.#finishArgs = finishArgs
    core.register(this)
  }

  build(device: GPUDevice): GPURenderBundle {
    const encoder = device.createRenderBundleEncoder(this.#encoderDescriptor)
    this.recording.play(encoder)
    return encoder.finish(...(this.#finishArgs as [GPURenderBundleDescriptor?]))
  }
}
