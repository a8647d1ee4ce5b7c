import { materialize } from '../capture.ts'
import type { Core } from '../core.ts'
import type { BufferNode } from '../nodes/buffer-node.ts'
import type { CommandNode } from '../nodes/command-node.ts'
import type { QueryNode } from '../nodes/query-node.ts'
import type { TextureNode } from '../nodes/texture-node.ts'

/** Something that was done with the device and has to be done again, in the same order, on the next one. */
export interface LogEntry {
  readonly seq: number
  /** Host memory it keeps. */
  readonly bytes: number
  replay(core: Core): void
  /** A checkpoint made it obsolete. */
  forget?(): void
}

/** What one step of a recording takes, roughly: three words and a short array. */
const bytesPerStep = 96

export class SubmitEntry implements LogEntry {
  readonly seq: number
  readonly bytes: number
  readonly commands: readonly CommandNode[]
  /** Devices that were lost while this was the last thing they were given, and only this. */
  kills = 0

  constructor(seq: number, commands: readonly CommandNode[]) {
    this.seq = seq
    this.commands = commands
    this.bytes = commands.reduce((sum, { recording }) => sum + bytesPerStep * (1 + recording.length), 0)
  }

  replay(core: Core): void {
    const { device } = core
    const repeatable = this.commands.filter(({ recording }) => !recording.hasExternal)
    device.queue.submit(repeatable.map((command) => command.build(device)))
    for (const { label, recording } of this.commands) {
      if (recording.hasExternal) core.emit({ type: 'incomplete', label, format: 'external' })
    }
    for (const { recording } of this.commands) recording.markAllWritten()
  }
}

export class WriteBufferEntry implements LogEntry {
  readonly seq: number
  readonly bytes: number
  readonly #node: BufferNode
  readonly #offset: number
  readonly #data: Uint8Array<ArrayBuffer>

  constructor(seq: number, node: BufferNode, offset: number, data: Uint8Array<ArrayBuffer>) {
    this.seq = seq
    this.#node = node
    this.#offset = offset
    this.#data = data
    this.bytes = data.byteLength
  }

  replay({ device }: Core): void {
    device.queue.writeBuffer(this.#node.real, this.#offset, this.#data)
    this.#node.markWritten(this.#offset, this.#offset + this.#data.byteLength)
  }
}

/** `writeTexture`, or a copy of an image, with captured arguments. */
export class WriteTextureEntry implements LogEntry {
  readonly seq: number
  readonly bytes: number
  readonly #method: 'writeTexture' | 'copyExternalImageToTexture'
  readonly #texture: TextureNode
  readonly #args: readonly unknown[]

  constructor(
    seq: number,
    method: 'writeTexture' | 'copyExternalImageToTexture',
    texture: TextureNode,
    args: readonly unknown[],
    bytes: number,
  ) {
    this.seq = seq
    this.#method = method
    this.#texture = texture
    this.#args = args
    this.bytes = bytes
  }

  replay({ device }: Core): void {
    const { queue } = device
    const args = this.#args.map(materialize)
    if (this.#method === 'writeTexture') queue.writeTexture(...(args as Parameters<GPUQueue['writeTexture']>))
    else queue.copyExternalImageToTexture(...(args as Parameters<GPUQueue['copyExternalImageToTexture']>))
    this.#texture.markWritten(false)
  }
}

export class DestroyEntry implements LogEntry {
  readonly seq: number
  readonly bytes = 32
  readonly #node: BufferNode | TextureNode | QueryNode

  constructor(seq: number, node: BufferNode | TextureNode | QueryNode) {
    this.seq = seq
    this.#node = node
    node.isDestroyLogged = true
  }

  replay(): void {
    this.#node.real.destroy()
  }

  forget(): void {
    this.#node.isDestroyLogged = false
  }
}

/** Bytes that were handed to the application: a replay has to give the same ones. */
export class DeliveredEntry implements LogEntry {
  readonly seq: number
  readonly bytes = 64
  readonly node: BufferNode
  readonly offset: number
  readonly size: number
  readonly hash: string

  constructor(seq: number, node: BufferNode, offset: number, size: number, hash: string) {
    this.seq = seq
    this.node = node
    this.offset = offset
    this.size = size
    this.hash = hash
  }

  replay(core: Core): void {
    core.checkDelivered(this)
  }
}
