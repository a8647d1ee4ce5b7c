import { BufferUsage } from '../flags.ts'
import type { Resource } from './resource.ts'

/** Copies of every declared resource on the device itself, by name. */
export type Shadow = ReadonlyMap<string, GPUBuffer>

/** Shadows of the declared resources, used again once they were read. */
export class ShadowPool {
  readonly #device: GPUDevice
  readonly #declared: readonly Resource[]
  readonly #free: Shadow[] = []
  #isClosed = false

  constructor(device: GPUDevice, declared: readonly Resource[]) {
    this.#device = device
    this.#declared = declared
  }

  acquire(): Shadow {
    return this.#free.pop() ?? this.#make()
  }

  release(shadow: Shadow): void {
    if (this.#isClosed) destroy(shadow)
    else this.#free.push(shadow)
  }

  close(): void {
    this.#isClosed = true
    for (const shadow of this.#free.splice(0)) destroy(shadow)
  }

  #make(): Shadow {
    const usage = BufferUsage.CopySrc | BufferUsage.CopyDst | BufferUsage.Storage
    return new Map(
      this.#declared.map(({ name, byteLength }) => [
        name,
        this.#device.createBuffer({ label: `egpu shadow of ${name}`, size: byteLength, usage }),
      ]),
    )
  }
}

function destroy(shadow: Shadow): void {
  for (const buffer of shadow.values()) buffer.destroy()
}
