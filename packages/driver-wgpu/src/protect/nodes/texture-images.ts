import { planesOf } from './texture-format.ts'
import type { Plane } from './texture-format.ts'

/** A part of a texture's content that moves in one go: some rows of one layer, or some whole layers, of one level. */
export interface Image {
  readonly plane: Plane
  readonly mipLevel: number
  readonly firstLayer: number
  readonly layers: number
  /** In blocks, as `rows`. */
  readonly firstRow: number
  readonly rows: number
  /** In texels, whole blocks. */
  readonly width: number
  readonly bytesPerRow: number
  readonly byteLength: number
}

/** Rows of a copy between texture and buffer begin at multiples of this (specification, "bytesPerRow"). */
const rowAlignment = 256

/** No image is larger, but for a single row or what can be copied only whole: every device has buffers of this size. */
export const imageBytes: number = 64 * 2 ** 20

/** What all of a texture's content consists of; empty when it cannot be kept. Always the same for the same texture. */
export function imagesOf(texture: GPUTexture): readonly Image[] {
  return planesOf(texture.format, texture.sampleCount).flatMap((plane) =>
    Array.from({ length: texture.mipLevelCount }, (_, mipLevel) => levelImages(texture, plane, mipLevel)).flat(),
  )
}

function levelImages(texture: GPUTexture, plane: Plane, mipLevel: number): Image[] {
  const at = (size: number): number => Math.max(1, size >> mipLevel)
  const columns = Math.ceil(at(texture.width) / plane.blockWidth)
  const rows = Math.ceil(at(texture.height) / plane.blockHeight)
  const layers = texture.dimension === '3d' ? at(texture.depthOrArrayLayers) : texture.depthOrArrayLayers
  const alignment = plane.by === 'copy' ? rowAlignment : 1
  const bytesPerRow = Math.ceil((columns * plane.blockBytes) / alignment) * alignment
  const layerBytes = bytesPerRow * rows
  const images: Image[] = []
  const add = (firstLayer: number, someLayers: number, firstRow: number, someRows: number): void => {
    const extent = { firstLayer, layers: someLayers, firstRow, rows: someRows, width: columns * plane.blockWidth }
    images.push({ plane, mipLevel, ...extent, bytesPerRow, byteLength: bytesPerRow * someRows * someLayers })
  }
  const rowsAtOnce = plane.isWhole ? rows : Math.min(rows, Math.max(1, Math.floor(imageBytes / bytesPerRow)))
  const layersAtOnce = plane.by === 'copy' ? Math.max(1, Math.floor(imageBytes / layerBytes)) : 1
  for (let layer = 0; layer < layers; layer += layersAtOnce) {
    const some = Math.min(layersAtOnce, layers - layer)
    for (let row = 0; row < rows; row += rowsAtOnce) add(layer, some, row, Math.min(rowsAtOnce, rows - row))
  }
  return images
}
