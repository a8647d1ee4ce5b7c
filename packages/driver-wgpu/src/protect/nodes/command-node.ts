import type { Core } from '../core.ts'
import { Node } from './node.ts'
import type { Recording } from './recording.ts'

/** A finished command buffer. It is not made anew with the others, but encoded again when its submit is. */
export class CommandNode extends Node<GPUCommandBuffer> {
  readonly recording: Recording
  readonly encoderDescriptor: GPUCommandEncoderDescriptor
  readonly descriptor: GPUCommandBufferDescriptor
  /** Device incarnation that `real` was encoded for. */
  readonly epoch: number
  isSubmitted = false

  constructor(
    core: Core,
    recording: Recording,
    real: GPUCommandBuffer,
    descriptors: { readonly encoder: GPUCommandEncoderDescriptor; readonly buffer: GPUCommandBufferDescriptor },
    epoch: number,
  ) {
    super(core, real, descriptors.buffer.label ?? '')
    this.recording = recording
    this.encoderDescriptor = descriptors.encoder
    this.descriptor = descriptors.buffer
    this.epoch = epoch
  }

  build(device: GPUDevice): GPUCommandBuffer {
    const encoder = device.createCommandEncoder(this.encoderDescriptor)
    this.recording.play(encoder)
    return encoder.finish(this.descriptor)
  }
}
