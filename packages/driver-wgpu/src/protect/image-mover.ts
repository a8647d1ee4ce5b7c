import { BufferUsage } from '../flags.ts'
import { restoringShader, savingShader } from './image-shaders.ts'
import { storedFormat } from './nodes/texture-format.ts'
import type { Image } from './nodes/texture-images.ts'

/** Moves images between textures and plain bytes, on one device: by copies where there are any, by shaders elsewhere. */
export class ImageMover {
  readonly #device: GPUDevice
  readonly #saving: Map<string, GPUComputePipeline> = new Map()
  readonly #restoring: Map<string, GPURenderPipeline> = new Map()
  /** Needed until what was encoded with them is submitted. */
  readonly #passing: GPUBuffer[] = []

  constructor(device: GPUDevice) {
    this.#device = device
  }

  /** Encodes the copy of an image into a buffer, at a multiple of 256 bytes. */
  save(encoder: GPUCommandEncoder, texture: GPUTexture, image: Image, buffer: GPUBuffer, offset: number): void {
    if (image.plane.by === 'copy') {
      const place = { buffer, offset, bytesPerRow: image.bytesPerRow, rowsPerImage: image.rows }
      encoder.copyTextureToBuffer(placeOf(texture, image), place, extentOf(image))
      return
    }
    const pipeline = this.#savingPipeline(texture, image)
    const pass = encoder.beginComputePass()
    pass.setPipeline(pipeline)
    pass.setBindGroup(
      0,
      this.#device.createBindGroup({
        layout: pipeline.getBindGroupLayout(0),
        entries: [
          { binding: 0, resource: viewOf(texture, image, image.plane.aspect) },
          { binding: 1, resource: { buffer, offset, size: image.byteLength } },
          { binding: 2, resource: { buffer: this.#band(image, 0) } },
        ],
      }),
    )
    pass.dispatchWorkgroups(Math.ceil(image.width / 8), Math.ceil(image.rows / 8))
    pass.end()
  }

  /** Brings bytes back into a texture, before whatever is submitted next. */
  restore(texture: GPUTexture, image: Image, bytes: Uint8Array): void {
    if (image.plane.by === 'copy') {
      const layout = { bytesPerRow: image.bytesPerRow, rowsPerImage: image.rows }
      const content = bytes as Uint8Array<ArrayBuffer>
      this.#device.queue.writeTexture(placeOf(texture, image), content, layout, extentOf(image))
      return
    }
    const words = this.#upload(bytes, BufferUsage.Storage)
    // A stencil is written bit by bit: what a fragment gives cannot be chosen, only whether it counts.
    const bits = image.plane.texel === 'stencil' ? [1, 2, 4, 8, 16, 32, 64, 128] : [0]
    const encoder = this.#device.createCommandEncoder({ label: 'egpu restore' })
    for (const bit of bits) this.#draw(encoder, texture, image, words, bit)
    this.#device.queue.submit([encoder.finish()])
    this.release()
  }

  /** To be called when what was encoded has been submitted. */
  release(): void {
    for (const buffer of this.#passing.splice(0)) buffer.destroy()
  }

  #draw(encoder: GPUCommandEncoder, texture: GPUTexture, image: Image, words: GPUBuffer, bit: number): void {
    const pipeline = this.#restoringPipeline(texture, image, bit)
    const pass = encoder.beginRenderPass(attachment(texture, image))
    pass.setPipeline(pipeline)
    pass.setBindGroup(
      0,
      this.#device.createBindGroup({
        layout: pipeline.getBindGroupLayout(0),
        entries: [
          { binding: 0, resource: { buffer: words } },
          { binding: 1, resource: { buffer: this.#band(image, bit) } },
        ],
      }),
    )
    pass.setScissorRect(0, image.firstRow, image.width, image.rows)
    pass.setStencilReference(0xff)
    pass.draw(3)
    pass.end()
  }

  #band({ firstRow, rows, width }: Image, bit: number): GPUBuffer {
    return this.#upload(new Uint8Array(Uint32Array.of(firstRow, rows, width, bit).buffer), BufferUsage.Uniform)
  }

  #upload(bytes: Uint8Array, usage: number): GPUBuffer {
    // Not mapped at creation: a device that is lost, and does not know it yet, throws at that.
    const buffer = this.#device.createBuffer({ size: bytes.byteLength, usage: usage | BufferUsage.CopyDst })
    this.#device.queue.writeBuffer(buffer, 0, bytes as Uint8Array<ArrayBuffer>)
    this.#passing.push(buffer)
    return buffer
  }

  #savingPipeline({ sampleCount }: GPUTexture, { plane }: Image): GPUComputePipeline {
    return getOrMake(this.#saving, `${plane.texel} ${sampleCount}`, () => {
      const module = this.#device.createShaderModule({ code: savingShader(plane.texel, sampleCount) })
      return this.#device.createComputePipeline({ layout: 'auto', compute: { module } })
    })
  }

  #restoringPipeline({ sampleCount, format }: GPUTexture, { plane }: Image, bit: number): GPURenderPipeline {
    return getOrMake(this.#restoring, `${plane.texel} ${sampleCount} ${format} ${bit}`, () => {
      const module = this.#device.createShaderModule({ code: restoringShader(plane.texel, sampleCount) })
      const isColor = plane.aspect === 'all'
      const replace = { compare: 'always', passOp: 'replace' } as const
      return this.#device.createRenderPipeline({
        layout: 'auto',
        vertex: { module },
        fragment: { module, targets: isColor ? [{ format: storedFormat(format) }] : [] },
        multisample: { count: sampleCount },
        ...(isColor
          ? {}
          : {
              depthStencil: {
                format,
                depthWriteEnabled: plane.texel === 'depth',
                depthCompare: 'always',
                ...(plane.texel === 'stencil' ? { stencilFront: replace, stencilBack: replace } : {}),
                stencilWriteMask: bit,
              },
            }),
      })
    })
  }
}

function placeOf(texture: GPUTexture, { plane, mipLevel, firstLayer, firstRow }: Image): GPUTexelCopyTextureInfo {
  return { texture, mipLevel, aspect: plane.aspect, origin: [0, firstRow * plane.blockHeight, firstLayer] }
}

function extentOf({ plane, width, rows, layers }: Image): GPUExtent3DStrict {
  return [width, rows * plane.blockHeight, layers]
}

function viewOf(texture: GPUTexture, { plane, mipLevel, firstLayer }: Image, aspect: GPUTextureAspect): GPUTextureView {
  return texture.createView({
    dimension: '2d',
    aspect,
    baseMipLevel: mipLevel,
    mipLevelCount: 1,
    baseArrayLayer: firstLayer,
    arrayLayerCount: 1,
    ...(plane.aspect === 'all' ? { format: storedFormat(texture.format) } : {}),
  })
}

function attachment(texture: GPUTexture, image: Image): GPURenderPassDescriptor {
  const view = viewOf(texture, image, 'all')
  if (image.plane.aspect === 'all') return { colorAttachments: [{ view, loadOp: 'load', storeOp: 'store' }] }
  return {
    colorAttachments: [],
    depthStencilAttachment: {
      view,
      ...(texture.format.startsWith('depth') ? { depthLoadOp: 'load', depthStoreOp: 'store' } : {}),
      ...(texture.format.endsWith('stencil8') ? { stencilLoadOp: 'load', stencilStoreOp: 'store' } : {}),
    },
  }
}

function getOrMake<T>(all: Map<string, T>, key: string, make: () => T): T {
  const known = all.get(key)
  if (known !== undefined) return known
  const made = make()
  all.set(key, made)
  return made
}
