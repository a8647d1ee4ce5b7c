import { BufferUsage, MapMode } from '../flags.ts'

/**
 * Gives a device its first work, and its first mappings both ways. What it allocates for those is slow to come by: on a
 * busy machine the first buffer of a device took 100 ms, where the next ones take 10 µs. A device that is lost meanwhile
 * is no matter here.
 */
export async function warmUp(device: GPUDevice): Promise<void> {
  const create = (usage: number): GPUBuffer => device.createBuffer({ label: 'egpu warm-up', size: 4, usage })
  const source = create(BufferUsage.MapWrite | BufferUsage.CopySrc)
  const target = create(BufferUsage.MapRead | BufferUsage.CopyDst)
  const encoder = device.createCommandEncoder({ label: 'egpu warm-up' })
  encoder.copyBufferToBuffer(source, 0, target, 0, 4)
  device.queue.submit([encoder.finish()])
  await Promise.allSettled([source.mapAsync(MapMode.Write), target.mapAsync(MapMode.Read)])
  for (const buffer of [source, target]) buffer.destroy()
}
