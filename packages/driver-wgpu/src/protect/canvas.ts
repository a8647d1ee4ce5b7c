import type { Core } from './core.ts'
import { DeviceNode } from './handles/device-handle.ts'
import { Handle, wrap } from './handles/handle.ts'
import { TextureHandle } from './handles/texture-handle.ts'
import { TextureNode } from './nodes/texture-node.ts'

interface Configured {
  readonly core: Core
  readonly configuration: GPUCanvasConfiguration
  readonly reference: WeakRef<GPUCanvasContext>
}

const configured = new WeakMap<GPUCanvasContext, Configured>()
/** The handle of each frame's texture: asking twice in a frame gives the same one. */
const frames = new WeakMap<GPUTexture, TextureHandle>()

let original: Pick<GPUCanvasContext, 'configure' | 'unconfigure' | 'getCurrentTexture'> | undefined

/**
 * Makes canvases take a protected device. They are the one place where a page hands its device to the browser itself,
 * which knows only its own; so the context's methods are wrapped, once, and hand everything else on unchanged.
 */
export function acceptProtectedDevices(): void {
  if (original !== undefined || typeof GPUCanvasContext === 'undefined') return
  const { prototype } = GPUCanvasContext
  const native = methodsOf(prototype)
  original = native

  prototype.configure = function (this: GPUCanvasContext, configuration) {
    forget(this)
    const node = typeof configuration?.device === 'object' ? Handle.nodeOf(configuration.device) : undefined
    if (!(node instanceof DeviceNode)) return native.configure.call(this, configuration)
    const reference = new WeakRef(this)
    configured.set(this, { core: node.core, configuration: { ...configuration }, reference })
    node.core.canvases.add(reference)
    return native.configure.call(this, { ...configuration, device: node.core.device })
  }

  prototype.unconfigure = function (this: GPUCanvasContext) {
    forget(this)
    return native.unconfigure.call(this)
  }

  prototype.getCurrentTexture = function (this: GPUCanvasContext) {
    const entry = configured.get(this)
    if (entry === undefined) return native.getCurrentTexture.call(this)
    return frameTexture(entry.core, native.getCurrentTexture.call(this)) as unknown as GPUTexture
  }
}

/** Connects every canvas to the device that took over. */
export function reconfigureCanvases(core: Core): void {
  for (const reference of core.canvases) {
    const context = reference.deref()
    const entry = context === undefined ? undefined : configured.get(context)
    if (context === undefined || entry === undefined) core.canvases.delete(reference)
    else original?.configure.call(context, { ...entry.configuration, device: core.device })
  }
}

function methodsOf(prototype: GPUCanvasContext): NonNullable<typeof original> {
  const names = ['configure', 'unconfigure', 'getCurrentTexture']
  const methods = names.map((name) => [name, Reflect.get(prototype, name) as unknown] as const)
  return Object.fromEntries(methods) as unknown as NonNullable<typeof original>
}

function forget(context: GPUCanvasContext): void {
  const entry = configured.get(context)
  if (entry === undefined) return
  entry.core.canvases.delete(entry.reference)
  configured.delete(context)
}

function frameTexture(core: Core, real: GPUTexture): TextureHandle {
  const known = frames.get(real)
  if (known !== undefined) return known
  const descriptor: GPUTextureDescriptor = {
    label: real.label,
    size: [real.width, real.height],
    format: real.format,
    usage: real.usage,
  }
  const handle = wrap(TextureHandle, new TextureNode(core, descriptor, real))
  frames.set(real, handle)
  return handle
}
