import { asInteger, capture, materialize } from '../capture.ts'
import type { Core } from '../core.ts'
import { BindGroupNode } from '../nodes/bind-group-node.ts'
import { BufferNode } from '../nodes/buffer-node.ts'
import type { Methods, Node } from '../nodes/node.ts'
import { QueryNode } from '../nodes/query-node.ts'
import { quietly } from '../quietly.ts'
import { RecipeNode } from '../nodes/recipe.ts'
import type { Recipe } from '../nodes/recipe.ts'
import { TextureNode } from '../nodes/texture-node.ts'
import { BufferHandle, mapAtCreation } from './buffer-handle.ts'
import { createCommandEncoder, createRenderBundleEncoder } from './command-encoder.ts'
import type { CommandEncoderHandle, RenderBundleEncoderHandle } from './command-encoder.ts'
import { Handle, wrap } from './handle.ts'
import type { HandleClass } from './handle.ts'
import {
  BindGroupHandle,
  BindGroupLayoutHandle,
  ComputePipelineHandle,
  LabelledHandle,
  PipelineLayoutHandle,
  QuerySetHandle,
  RenderPipelineHandle,
  SamplerHandle,
  ShaderModuleHandle,
} from './plain-handles.ts'
import { QueueHandle, RootNode } from './queue-handle.ts'
import { TextureHandle } from './texture-handle.ts'

type UncapturedListener = (event: GPUUncapturedErrorEvent) => unknown

/** The node of a protected device: what is reachable from the device alone. */
export class DeviceNode extends RootNode {
  readonly queue: QueueHandle
  readonly events: EventTarget = new EventTarget()
  onuncapturederror: UncapturedListener | null = null

  constructor(core: Core) {
    super(core, (device) => device)
    this.queue = wrap(QueueHandle, new RootNode(core, (device) => device.queue))
  }
}

export class DeviceHandle extends LabelledHandle<DeviceNode> {
  get features(): GPUSupportedFeatures {
    return Handle.node(this).core.device.features
  }

  get limits(): GPUSupportedLimits {
    return Handle.node(this).core.device.limits
  }

  get adapterInfo(): GPUAdapterInfo {
    return Handle.node(this).core.device.adapterInfo
  }

  get queue(): QueueHandle {
    return Handle.node(this).queue
  }

  get lost(): Promise<GPUDeviceLostInfo> {
    return Handle.node(this).core.ended.promise
  }

  get onuncapturederror(): UncapturedListener | null {
    return Handle.node(this).onuncapturederror
  }

  set onuncapturederror(listener: UncapturedListener | null) {
    Handle.node(this).onuncapturederror = listener
  }

  addEventListener(...args: Parameters<EventTarget['addEventListener']>): void {
    Handle.node(this).events.addEventListener(...args)
  }

  removeEventListener(...args: Parameters<EventTarget['removeEventListener']>): void {
    Handle.node(this).events.removeEventListener(...args)
  }

  dispatchEvent(event: Event): boolean {
    return Handle.node(this).events.dispatchEvent(event)
  }

  destroy(): void {
    const { core } = Handle.node(this)
    core.isDestroyWanted = true
    if (core.isLive) core.device.destroy()
    // There is no device to destroy just now, and none is wanted any more.
    else core.end(core.lostInfo('destroyed', 'the device was destroyed while it was being recovered'), undefined)
  }

  pushErrorScope(filter: GPUErrorFilter): void {
    Handle.node(this).core.scopes.push(filter)
  }

  popErrorScope(): Promise<GPUError | null> {
    return Handle.node(this).core.scopes.pop()
  }

  createBuffer(descriptor: GPUBufferDescriptor): BufferHandle {
    const { core } = Handle.node(this)
    const captured = capture(descriptor) as GPUBufferDescriptor
    const { size, usage, mappedAtCreation = false } = captured as Partial<Record<keyof GPUBufferDescriptor, unknown>>
    if (typeof size !== 'number' || !isFlags(usage) || typeof mappedAtCreation !== 'boolean') {
      quietly(core.device, () => core.device.createBuffer(captured)).destroy()
    }
    const node = new BufferNode(core, {
      ...captured,
      size: asInteger(size) as number,
      usage: asInteger(usage) as number,
      mappedAtCreation: Boolean(mappedAtCreation),
    })
    if (node.descriptor.mappedAtCreation === true) mapAtCreation(node)
    return wrap(BufferHandle, node)
  }

  createTexture(descriptor: GPUTextureDescriptor): TextureHandle {
    const { core } = Handle.node(this)
    const captured = capture(descriptor) as GPUTextureDescriptor
    if (!isFlags(captured.usage)) quietly(core.device, () => core.device.createTexture(captured)).destroy()
    return wrap(TextureHandle, new TextureNode(core, { ...captured, usage: asInteger(captured.usage) as number }))
  }

  createSampler(...args: readonly unknown[]): SamplerHandle {
    return make(this, 'createSampler', args, RecipeNode, SamplerHandle)
  }

  createBindGroupLayout(...args: readonly unknown[]): BindGroupLayoutHandle {
    return make(this, 'createBindGroupLayout', args, RecipeNode, BindGroupLayoutHandle)
  }

  createPipelineLayout(...args: readonly unknown[]): PipelineLayoutHandle {
    return make(this, 'createPipelineLayout', args, RecipeNode, PipelineLayoutHandle)
  }

  createBindGroup(...args: readonly unknown[]): BindGroupHandle {
    return make(this, 'createBindGroup', args, BindGroupNode, BindGroupHandle)
  }

  createShaderModule(...args: readonly unknown[]): ShaderModuleHandle {
    return make(this, 'createShaderModule', args, RecipeNode, ShaderModuleHandle)
  }

  createComputePipeline(...args: readonly unknown[]): ComputePipelineHandle {
    return make(this, 'createComputePipeline', args, RecipeNode, ComputePipelineHandle)
  }

  createRenderPipeline(...args: readonly unknown[]): RenderPipelineHandle {
    return make(this, 'createRenderPipeline', args, RecipeNode, RenderPipelineHandle)
  }

  createComputePipelineAsync(...args: readonly unknown[]): Promise<ComputePipelineHandle> {
    return makeAsync(this, 'createComputePipeline', args, ComputePipelineHandle)
  }

  createRenderPipelineAsync(...args: readonly unknown[]): Promise<RenderPipelineHandle> {
    return makeAsync(this, 'createRenderPipeline', args, RenderPipelineHandle)
  }

  createQuerySet(...args: readonly unknown[]): QuerySetHandle {
    return make(this, 'createQuerySet', args, QueryNode, QuerySetHandle)
  }

  createCommandEncoder(...args: readonly unknown[]): CommandEncoderHandle {
    return createCommandEncoder(Handle.node(this).core, args)
  }

  createRenderBundleEncoder(...args: readonly unknown[]): RenderBundleEncoderHandle {
    return createRenderBundleEncoder(Handle.node(this).core, args)
  }

  /** A video frame lives for one task, on one device: it is handed through and cannot be replayed. */
  importExternalTexture(...args: readonly unknown[]): unknown {
    const { core } = Handle.node(this)
    return (core.device as unknown as Methods)['importExternalTexture']?.(...args)
  }
}

/**
 * Whether usages can be looked at as they are. What else there may be, and which of it is refused, differs between
 * implementations: Dawn for Node takes numbers only, a browser reads `'16'` as 16. So the device is asked first.
 */
function isFlags(usage: unknown): boolean {
  return typeof usage === 'number' && usage >>> 0 === usage
}

function make<Real extends object, N extends Node<Real>, H extends Handle<N>>(
  device: DeviceHandle,
  method: string,
  args: readonly unknown[],
  nodeKind: new (core: Core, recipe: Recipe, real: Real) => N,
  handleKind: HandleClass<N, H>,
): H {
  const { core } = Handle.node(device)
  const captured = args.map(capture)
  const real = (core.device as unknown as Methods)[method]?.(...captured.map(materialize)) as Real
  return wrap(handleKind, new nodeKind(core, { owner: undefined, method, args: captured }, real))
}

async function makeAsync<H extends Handle<RecipeNode>>(
  device: DeviceHandle,
  method: string,
  args: readonly unknown[],
  handleKind: HandleClass<RecipeNode, H>,
): Promise<H> {
  const { core } = Handle.node(device)
  const captured = args.map(capture)
  const real = await core.untilCertain(() => {
    const methods = core.device as unknown as Methods
    return methods[`${method}Async`]?.(...captured.map(materialize)) as Promise<object>
  })
  // A loss just now is no matter: the recipe makes it again.
  return wrap(handleKind, new RecipeNode(core, { owner: undefined, method, args: captured }, real))
}
