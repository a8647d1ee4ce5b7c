import { BufferUsage, TextureUsage } from '../../flags.ts'
import { capture, materialize, Use } from '../capture.ts'
import type { Core } from '../core.ts'
import { BindGroupNode } from '../nodes/bind-group-node.ts'
import { BufferNode } from '../nodes/buffer-node.ts'
import { BundleNode } from '../nodes/bundle-node.ts'
import { CommandNode } from '../nodes/command-node.ts'
import { Node } from '../nodes/node.ts'
import type { Methods } from '../nodes/node.ts'
import { labelOf } from '../nodes/recipe.ts'
import { Recording } from '../nodes/recording.ts'
import { textureOf } from '../nodes/texture-of.ts'
import { TextureNode } from '../nodes/texture-node.ts'
import { Handle, standOn, wrap } from './handle.ts'
import { CommandBufferHandle, LabelledHandle, RenderBundleHandle } from './plain-handles.ts'

/** Something commands are encoded into: an encoder, a pass, a bundle encoder. Each call is made and noted. */
export class EncoderNode extends Node<object> {
  readonly recording: Recording
  readonly target: number
  /** Device incarnation of `real`; on a later one there is nothing to be called, only to be noted. */
  readonly epoch: number
  /** Where the results of a render pass's occlusion queries go. */
  occlusionQueries: unknown

  constructor(core: Core, real: object, recording: Recording, target: number, label: string, epoch: number) {
    super(core, real, label)
    this.recording = recording
    this.target = target
    this.epoch = epoch
  }

  build(): object {
    return this.real
  }

  /** Calls the method with what the arguments stand for now, and notes it once the call was accepted. */
  call(method: string, args: readonly unknown[]): unknown {
    const result = this.callReal(method, args)
    this.recording.add(this.target, method, args)
    return result
  }

  /**
   * `call` for what the application handed over, which it returns captured. Passes are full of these, so each argument
   * is looked at once.
   */
  take(method: string, args: readonly unknown[]): readonly unknown[] {
    const isCurrent = this.epoch === this.core.epoch
    const captured: unknown[] = []
    const real: unknown[] = []
    for (const value of args) {
      const kept = typeof value === 'object' ? capture(value) : value
      captured.push(kept)
      if (isCurrent) real.push(kept instanceof Node ? kept.real : typeof kept === 'object' ? materialize(kept) : kept)
    }
    if (isCurrent) (this.real as Methods)[method]?.(...real)
    this.recording.add(this.target, method, captured)
    return captured
  }

  callReal(method: string, args: readonly unknown[]): unknown {
    if (this.epoch !== this.core.epoch) return undefined
    return (this.real as Methods)[method]?.(...args.map(materialize))
  }
}

/** An encoder of a render bundle, with what a bundle needs to be encoded again. */
class BundleEncoderNode extends EncoderNode {
  readonly args: readonly [GPURenderBundleEncoderDescriptor]

  constructor(core: Core, args: readonly [GPURenderBundleEncoderDescriptor]) {
    super(core, core.device.createRenderBundleEncoder(...args), new Recording(), 0, labelOf(args), core.epoch)
    this.args = args
  }
}

/** What an encoder of any kind has in common. */
class EncoderHandle<N extends EncoderNode = EncoderNode> extends LabelledHandle<N> {
  pushDebugGroup(...args: readonly unknown[]): void {
    Handle.node(this).call('pushDebugGroup', args)
  }

  popDebugGroup(...args: readonly unknown[]): void {
    Handle.node(this).call('popDebugGroup', args)
  }

  insertDebugMarker(...args: readonly unknown[]): void {
    Handle.node(this).call('insertDebugMarker', args)
  }
}

/** Methods of passes and bundle encoders that take numbers, or handles whose use writes nothing. */
const plainMethods = {
  compute: ['dispatchWorkgroups', 'dispatchWorkgroupsIndirect', 'setPipeline', 'setImmediates'],
  render: [
    'setPipeline',
    'setIndexBuffer',
    'setVertexBuffer',
    'draw',
    'drawIndexed',
    'drawIndirect',
    'drawIndexedIndirect',
    'setImmediates',
  ],
  pass: [
    'setViewport',
    'setScissorRect',
    'setBlendConstant',
    'setStencilReference',
    'endOcclusionQuery',
    'multiDrawIndirect',
    'multiDrawIndexedIndirect',
  ],
} as const

/** Gives a class methods that are called and noted, nothing more. */
function addPlainMethods(prototype: object, names: readonly string[]): void {
  for (const name of names) {
    const method = function (this: Handle<EncoderNode>, ...args: readonly unknown[]): void {
      const node = Handle.node(this)
      for (const value of node.take(name, args)) if (value instanceof BufferNode) node.recording.buffers.add(value)
    }
    Object.defineProperty(prototype, name, { value: method, writable: true, configurable: true })
  }
}

class BindingHandle<N extends EncoderNode = EncoderNode> extends EncoderHandle<N> {
  setBindGroup(...args: readonly unknown[]): void {
    const node = Handle.node(this)
    const group = node.take('setBindGroup', args)[1]
    if (group instanceof BindGroupNode) node.recording.markGroup(group)
  }
}

export class ComputePassHandle extends BindingHandle {
  end(...args: readonly unknown[]): void {
    Handle.node(this).call('end', args)
  }
}
addPlainMethods(ComputePassHandle.prototype, plainMethods.compute)

export class RenderPassHandle extends BindingHandle {
  beginOcclusionQuery(...args: readonly unknown[]): void {
    const node = Handle.node(this)
    node.call('beginOcclusionQuery', args)
    node.recording.markQueryWritten(node.occlusionQueries, args[0])
  }

  executeBundles(...args: readonly unknown[]): void {
    const node = Handle.node(this)
    const captured = args.map(capture)
    node.call('executeBundles', captured)
    for (const bundle of captured[0] as Iterable<unknown>) {
      if (bundle instanceof BundleNode) node.recording.include(bundle.recording)
    }
  }

  end(...args: readonly unknown[]): void {
    Handle.node(this).call('end', args)
  }
}
addPlainMethods(RenderPassHandle.prototype, [...plainMethods.render, ...plainMethods.pass])

export class RenderBundleEncoderHandle extends BindingHandle<BundleEncoderNode> {
  finish(...args: readonly unknown[]): RenderBundleHandle {
    const { core, real, recording, args: encoderArgs } = Handle.node(this)
    const captured = args.map(capture)
    const bundle = (real as GPURenderBundleEncoder).finish(...(captured as [GPURenderBundleDescriptor?]))
    return wrap(RenderBundleHandle, new BundleNode(core, recording, encoderArgs[0], captured, bundle))
  }
}
addPlainMethods(RenderBundleEncoderHandle.prototype, plainMethods.render)

interface CapturedColorAttachment {
  readonly view?: unknown
  readonly resolveTarget?: unknown
  readonly loadOp?: GPULoadOp
}

interface CapturedDepthAttachment {
  readonly view?: unknown
  readonly depthLoadOp?: GPULoadOp
  readonly stencilLoadOp?: GPULoadOp
  readonly depthReadOnly?: boolean
  readonly stencilReadOnly?: boolean
}

interface CapturedPass {
  readonly colorAttachments?: readonly (CapturedColorAttachment | null)[]
  readonly depthStencilAttachment?: CapturedDepthAttachment
  readonly occlusionQuerySet?: unknown
  readonly timestampWrites?: TimestampWrites
}

interface TimestampWrites {
  readonly querySet?: unknown
  readonly beginningOfPassWriteIndex?: number
  readonly endOfPassWriteIndex?: number
}

export class CommandEncoderHandle extends EncoderHandle {
  beginComputePass(...args: readonly unknown[]): ComputePassHandle {
    const node = Handle.node(this)
    const [descriptor] = args.map(capture) as [CapturedPass?]
    const real = node.callReal('beginComputePass', [descriptor])
    markTimestamps(node.recording, descriptor?.timestampWrites)
    return openPass(node, 'beginComputePass', descriptor, real, ComputePassHandle)
  }

  beginRenderPass(...args: readonly unknown[]): RenderPassHandle {
    const node = Handle.node(this)
    const [descriptor] = args.map(capture) as [CapturedPass?]
    const real = node.callReal('beginRenderPass', [descriptor])
    const { recording } = node
    for (const attachment of descriptor?.colorAttachments ?? []) {
      markAttachment(recording, attachment?.view, attachment?.loadOp === 'clear')
      markAttachment(recording, attachment?.resolveTarget, true)
    }
    const depth = descriptor?.depthStencilAttachment
    markAttachment(recording, depth?.view, isCleared(depth))
    markTimestamps(recording, descriptor?.timestampWrites)
    const pass = openPass(node, 'beginRenderPass', descriptor, real, RenderPassHandle)
    Handle.node(pass).occlusionQueries = descriptor?.occlusionQuerySet
    return pass
  }

  copyBufferToBuffer(...args: readonly unknown[]): void {
    const node = Handle.node(this)
    const captured = args.map(capture)
    // Newer form: (source, destination, size?).
    const isShort = captured[1] instanceof BufferNode
    const [sourceAt, destinationAt] = isShort ? [0, 1] : [0, 2]
    const source = captured[sourceAt]
    const destination = captured[destinationAt]
    captured[sourceAt] = needing(source, BufferUsage.CopySrc, node.recording)
    captured[destinationAt] = needing(destination, BufferUsage.CopyDst, node.recording)
    node.call('copyBufferToBuffer', captured)
    if (!(destination instanceof BufferNode)) return
    const offset = isShort ? 0 : Number(captured[3])
    const size = (isShort ? captured[2] : captured[4]) as number | undefined
    node.recording.markBuffer(destination, offset, size === undefined ? destination.size : offset + size)
  }

  copyBufferToTexture(...args: readonly unknown[]): void {
    const node = Handle.node(this)
    const [source, destination, size] = args.map(capture) as [CopyInfo, CopyInfo, unknown]
    const from = withUse(source, 'buffer', BufferUsage.CopySrc, node.recording)
    const to = withUse(destination, 'texture', TextureUsage.CopyDst, node.recording)
    node.call('copyBufferToTexture', [from, to, size])
    markCopiedTexture(node.recording, destination)
  }

  copyTextureToBuffer(...args: readonly unknown[]): void {
    const node = Handle.node(this)
    const [source, destination, size] = args.map(capture) as [CopyInfo, CopyInfo, unknown]
    const from = withUse(source, 'texture', TextureUsage.CopySrc, node.recording)
    const to = withUse(destination, 'buffer', BufferUsage.CopyDst, node.recording)
    node.call('copyTextureToBuffer', [from, to, size])
    const { buffer } = destination
    if (buffer instanceof BufferNode) node.recording.markBuffer(buffer, destination.offset ?? 0, buffer.size)
  }

  copyTextureToTexture(...args: readonly unknown[]): void {
    const node = Handle.node(this)
    const [source, destination, size] = args.map(capture) as [CopyInfo, CopyInfo, unknown]
    const from = withUse(source, 'texture', TextureUsage.CopySrc, node.recording)
    const to = withUse(destination, 'texture', TextureUsage.CopyDst, node.recording)
    node.call('copyTextureToTexture', [from, to, size])
    markCopiedTexture(node.recording, destination)
  }

  clearBuffer(...args: readonly unknown[]): void {
    const node = Handle.node(this)
    const [buffer, offset, size] = args.map(capture)
    node.call('clearBuffer', [needing(buffer, BufferUsage.CopyDst, node.recording), offset, size])
    if (!(buffer instanceof BufferNode)) return
    const start = Number(offset ?? 0)
    node.recording.markBuffer(buffer, start, size === undefined ? buffer.size : start + Number(size))
  }

  resolveQuerySet(...args: readonly unknown[]): void {
    const node = Handle.node(this)
    const captured = args.map(capture)
    node.call('resolveQuerySet', captured)
    const [query, first, count, destination, offset] = captured
    node.recording.markQueriesResolved(query, Number(first), Number(count))
    if (!(destination instanceof BufferNode)) return
    node.recording.markBuffer(destination, Number(offset), Number(offset) + 8 * Number(count))
  }

  writeTimestamp(...args: readonly unknown[]): void {
    const node = Handle.node(this)
    const captured = args.map(capture)
    node.call('writeTimestamp', captured)
    node.recording.markQueryWritten(captured[0], captured[1])
  }

  finish(...args: readonly unknown[]): CommandBufferHandle {
    const node = Handle.node(this)
    const descriptor = (capture(args[0]) ?? {}) as GPUCommandBufferDescriptor
    // A dead encoder still gives a command buffer; it is encoded anew when it is submitted.
    const real = (node.real as GPUCommandEncoder).finish(descriptor)
    const descriptors = { encoder: { label: node.label }, buffer: descriptor }
    return wrap(CommandBufferHandle, new CommandNode(node.core, node.recording, real, descriptors, node.epoch))
  }
}

interface CopyInfo {
  readonly buffer?: unknown
  readonly texture?: unknown
  readonly offset?: number
}

/** Starts to encode commands. */
export function createCommandEncoder(core: Core, args: readonly unknown[]): CommandEncoderHandle {
  const captured = args.map(capture) as [GPUCommandEncoderDescriptor?]
  const real = core.device.createCommandEncoder(...captured)
  const label = captured[0]?.label ?? ''
  return wrap(CommandEncoderHandle, new EncoderNode(core, real, new Recording(), 0, label, core.epoch))
}

/** Starts to encode a render bundle. */
export function createRenderBundleEncoder(core: Core, args: readonly unknown[]): RenderBundleEncoderHandle {
  const captured = args.map(capture)
  return wrap(RenderBundleEncoderHandle, new BundleEncoderNode(core, captured as [GPURenderBundleEncoderDescriptor]))
}

function openPass<H extends ComputePassHandle | RenderPassHandle>(
  parent: EncoderNode,
  method: string,
  descriptor: unknown,
  real: unknown,
  kind: new (node: EncoderNode) => H,
): H {
  const target = parent.recording.open(method, descriptor === undefined ? [] : [descriptor])
  const label = (descriptor as { readonly label?: string } | undefined)?.label ?? ''
  // Without a real pass the encoder is one of a device that is gone; nothing will be called on it.
  const pass = new EncoderNode(
    parent.core,
    (real as object | undefined) ?? {},
    parent.recording,
    target,
    label,
    parent.epoch,
  )
  if (real !== undefined) standOn(kind.prototype, pass.real)
  return new kind(pass)
}

/** The place of a buffer that needs a usage. */
function needing(value: unknown, usage: number, recording: Recording): unknown {
  if (!(value instanceof BufferNode)) return value
  recording.buffers.add(value)
  return new Use(value, usage)
}

function withUse(info: CopyInfo, member: 'buffer' | 'texture', usage: number, recording: Recording): unknown {
  const node = info?.[member]
  if (node instanceof BufferNode) recording.buffers.add(node)
  if (!(node instanceof BufferNode) && !(node instanceof TextureNode)) return info
  if (node instanceof TextureNode && usage === TextureUsage.CopySrc) recording.markTextureRead(node)
  return { ...info, [member]: new Use(node, usage) }
}

/** Whether a pass begins with every aspect of its depth-stencil attachment anew. */
function isCleared(depth: CapturedDepthAttachment | undefined): boolean {
  const format = textureOf(depth?.view)?.real.format
  if (depth === undefined || format === undefined) return false
  const isDepthCleared = !format.startsWith('depth') || depth.depthLoadOp === 'clear'
  return isDepthCleared && (!format.endsWith('stencil8') || depth.stencilLoadOp === 'clear')
}

function markCopiedTexture(recording: Recording, destination: CopyInfo): void {
  const texture = textureOf(destination.texture)
  if (texture !== undefined) recording.writtenTextures.add(texture)
}

function markAttachment(recording: Recording, view: unknown, isReplaced: boolean): void {
  const texture = textureOf(view)
  if (texture === undefined) return
  if (isReplaced) {
    recording.markTextureReplaced(texture)
    return
  }
  recording.writtenTextures.add(texture)
  recording.markTextureRead(texture)
}

function markTimestamps(recording: Recording, writes: TimestampWrites | undefined): void {
  recording.markQueryWritten(writes?.querySet, writes?.beginningOfPassWriteIndex)
  recording.markQueryWritten(writes?.querySet, writes?.endOfPassWriteIndex)
}
