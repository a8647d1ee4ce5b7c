import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { BufferUsage, TextureUsage } from '../../flags.ts'
import { capture, materialize, Use } from '../capture.ts'
import type { Core } from '../core.ts'
import { SubmitEntry, WriteBufferEntry, WriteTextureEntry } from '../log/entry.ts'
import { BufferNode } from '../nodes/buffer-node.ts'
import { CommandNode } from '../nodes/command-node.ts'
import { Node } from '../nodes/node.ts'
import { planesOf } from '../nodes/texture-format.ts'
import { TextureNode } from '../nodes/texture-node.ts'
import { Handle } from './handle.ts'
import { LabelledHandle } from './plain-handles.ts'

/** The device, or its queue: there is one, and it changes with the device. */
export class RootNode extends Node<object> {
  readonly #pick: (device: GPUDevice) => object

  constructor(core: Core, pick: (device: GPUDevice) => object) {
    const real = pick(core.device)
    super(core, real, (real as { readonly label: string }).label)
    this.#pick = pick
    core.roots.push(this)
  }

  build(device: GPUDevice): object {
    return this.#pick(device)
  }
}

export class QueueHandle extends LabelledHandle<RootNode> {
  submit(...args: readonly unknown[]): void {
    const { core } = Handle.node(this)
    const { queue } = core.device
    const given = capture(args[0])
    if (!areFreshCommands(given)) {
      // Twice the same, or not commands at all: the device says what is wrong, and nothing runs.
      ;(queue.submit as (commands: unknown) => void)(materialize(given))
      return
    }
    const mapped = mappedAmong(core, given)
    if (mapped.length > 0) {
      refuseMapped(core, given, mapped)
      return
    }
    const entry = new SubmitEntry(core.nextSeq(), given)
    core.log.add(entry)
    for (const command of given) {
      command.isSubmitted = true
      command.recording.markAllWritten()
    }
    if (core.isLive) {
      queue.submit(given.map((command) => (command.epoch === core.epoch ? command.real : command.build(core.device))))
    }
    core.checkpointer.consider()
  }

  async onSubmittedWorkDone(): Promise<undefined> {
    const { core } = Handle.node(this)
    try {
      await core.confirm()
    } catch (error) {
      // A destroyed device has no work left to wait for; one that was given up has, and will never do it.
      if (!EGpuError.is(error, EGpuErrorCode.Closed)) throw error
    }
    return undefined
  }

  writeBuffer(
    buffer: GPUBuffer,
    bufferOffset: number,
    data: GPUAllowSharedBufferSource,
    dataOffset: number = 0,
    size?: number,
  ): void {
    const { core } = Handle.node(this)
    const node = capture(buffer)
    const { queue } = core.device
    if (!(node instanceof BufferNode) || node.mapping !== undefined || node.cancelMap !== undefined) {
      const real = node instanceof BufferNode ? node.makeTwin({ mappedAtCreation: true }) : (node as GPUBuffer)
      queue.writeBuffer(real, bufferOffset, data, dataOffset, size)
      return
    }
    // First the real one: it throws what has to be thrown.
    queue.writeBuffer(placeNow(node, BufferUsage.CopyDst), bufferOffset, data, dataOffset, size)
    if ((node.usage & BufferUsage.CopyDst) === 0) return
    const bytes = copyOf(data, dataOffset, size)
    core.log.add(new WriteBufferEntry(core.nextSeq(), node, bufferOffset, bytes))
    node.markWritten(bufferOffset, bufferOffset + bytes.byteLength)
    core.checkpointer.consider()
  }

  writeTexture(
    destination: GPUTexelCopyTextureInfo,
    data: GPUAllowSharedBufferSource,
    layout: GPUTexelCopyBufferLayout,
    size: GPUExtent3D,
  ): void {
    const { core } = Handle.node(this)
    const info = withUse(capture(destination))
    const capturedLayout = capture(layout) as GPUTexelCopyBufferLayout
    const extent = capture(size)
    const { queue } = core.device
    const texture = usedTexture(info)
    const place = infoNow(info, texture) as GPUTexelCopyTextureInfo
    queue.writeTexture(place, data, layout, materialize(extent) as GPUExtent3D)
    if (texture === undefined || (texture.usage & TextureUsage.CopyDst) === 0) return
    const all = bytesOf(data)
    const start = capturedLayout.offset ?? 0
    const bytes = all.slice(start, start + neededBytes(texture, capturedLayout, extent, all.byteLength - start))
    const args = [info, bytes, { ...capturedLayout, offset: 0 }, extent]
    core.log.add(new WriteTextureEntry(core.nextSeq(), 'writeTexture', texture, args, bytes.byteLength))
    texture.markWritten(false)
    core.checkpointer.consider()
  }

  copyExternalImageToTexture(
    source: GPUCopyExternalImageSourceInfo,
    destination: GPUCopyExternalImageDestInfo,
    size: GPUExtent3D,
  ): void {
    const { core } = Handle.node(this)
    const info = withUse(capture(destination))
    const extent = capture(size)
    const { queue } = core.device
    const texture = usedTexture(info)
    const place = infoNow(info, texture) as GPUCopyExternalImageDestInfo
    queue.copyExternalImageToTexture(source, place, materialize(extent) as GPUExtent3D)
    if (texture === undefined) return
    const args = [{ ...source, source: still(source.source) }, info, extent]
    core.log.add(
      new WriteTextureEntry(
        core.nextSeq(),
        'copyExternalImageToTexture',
        texture,
        args,
        4 * texture.real.width * texture.real.height,
      ),
    )
    texture.markWritten(false)
    core.checkpointer.consider()
  }
}

/** Command buffers of ours, each for the first time. */
function areFreshCommands(given: unknown): given is readonly CommandNode[] {
  if (!Array.isArray(given)) return false
  return given.every((item) => item instanceof CommandNode && !item.isSubmitted) && new Set(given).size === given.length
}

function mappedAmong(core: Core, commands: readonly CommandNode[]): readonly BufferNode[] {
  if (core.mappedBuffers.size === 0) return []
  return [...core.mappedBuffers].filter((buffer) => commands.some(({ recording }) => recording.buffers.has(buffer)))
}

/** The same commands with buffers that really are mapped: the device refuses them, and nothing of it is done. */
function refuseMapped(core: Core, commands: readonly CommandNode[], mapped: readonly BufferNode[]): void {
  const { device } = core
  const reals = mapped.map((node) => node.real)
  for (const node of mapped) node.real = node.makeTwin({ mappedAtCreation: true })
  try {
    device.queue.submit(commands.map((command) => command.build(device)))
  } finally {
    for (const [index, node] of mapped.entries()) {
      node.real.destroy()
      node.real = reals[index] as GPUBuffer
    }
  }
}

function bytesOf(data: GPUAllowSharedBufferSource): Uint8Array {
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  return new Uint8Array(data as ArrayBuffer)
}

/** Offsets and sizes count in elements of a typed array, in bytes otherwise. */
function copyOf(data: GPUAllowSharedBufferSource, offset: number, size: number | undefined): Uint8Array<ArrayBuffer> {
  const element = (data as { readonly BYTES_PER_ELEMENT?: number }).BYTES_PER_ELEMENT ?? 1
  const end = size === undefined ? undefined : (offset + size) * element
  return new Uint8Array(bytesOf(data).slice(offset * element, end))
}

function withUse(info: unknown): unknown {
  const { texture } = info as { readonly texture?: unknown }
  return texture instanceof TextureNode
    ? { ...(info as object), texture: new Use(texture, TextureUsage.CopyDst) }
    : info
}

/**
 * Where a write goes on the spot. In the middle of a replay that is a stand-in, for the errors alone: the work that
 * comes before the write is still to be done again, and the write after it.
 */
function placeNow<Real extends GPUBuffer | GPUTexture>(
  node: Node<Real> & { realFor(usage: number): Real; twin(): Real },
  usage: number,
): Real {
  return node.core.isLive ? node.realFor(usage) : node.twin()
}

function infoNow(info: unknown, texture: TextureNode | undefined): unknown {
  const real = materialize(info)
  return texture === undefined ? real : { ...(real as object), texture: placeNow(texture, TextureUsage.CopyDst) }
}

function usedTexture(info: unknown): TextureNode | undefined {
  const { texture } = info as { readonly texture?: unknown }
  return texture instanceof Use && texture.node instanceof TextureNode ? texture.node : undefined
}

/** Bytes that a texture write reads: all rows but the last count with their padding. */
function neededBytes(texture: TextureNode, layout: GPUTexelCopyBufferLayout, extent: unknown, most: number): number {
  const [width = 1, height = 1, depth = 1] =
    Symbol.iterator in (extent as object)
      ? [...(extent as Iterable<number>)]
      : (({ width, height, depthOrArrayLayers }) => [width, height, depthOrArrayLayers] as number[])(
          extent as GPUExtent3DDict & { readonly height?: number },
        )
  const block = planesOf(texture.real.format, 1).find(({ by }) => by === 'copy')
  if (block === undefined || width === 0 || height === 0 || depth === 0) return most
  const rows = Math.ceil(height / block.blockHeight)
  const lastRow = Math.ceil(width / block.blockWidth) * block.blockBytes
  const bytesPerRow = layout.bytesPerRow ?? lastRow
  const rowsPerImage = layout.rowsPerImage ?? rows
  return Math.min(most, bytesPerRow * (rowsPerImage * (depth - 1) + rows - 1) + lastRow)
}

/** The image as it is now: a frame of it does not change with what the page does next. */
function still(image: GPUCopyExternalImageSource): GPUCopyExternalImageSource {
  if (typeof VideoFrame === 'undefined' || image instanceof VideoFrame || image instanceof ImageData) return image
  return new VideoFrame(image, { timestamp: 0 })
}
