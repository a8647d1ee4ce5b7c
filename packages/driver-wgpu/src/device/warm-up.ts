import { BufferUsage, MapMode } from '../flags.ts'

/**
 * Gives a device its first work. What it allocates for that, and for the first mapping, is slow to come by: on a busy
 * machine the first buffer of a device took 100 ms, where the next ones take 10 µs. A device that is lost meanwhile is no
 * matter here.
 */
export async function warmUp(device: GPUDevice): Promise<void> {
  const source = device.createBuffer({ label: 'egpu warm-up', size: 4, usage: BufferUsage.CopySrc })
  const target = device.createBuffer({
    label: 'egpu warm-up',
    size: 4,
    usage: BufferUsage.MapRead | BufferUsage.CopyDst,
  })
  const encoder = device.createCommandEncoder({ label: 'egpu warm-up' })
  encoder.copyBufferToBuffer(source, 0, target, 0, 4)
  device.queue.submit([encoder.finish()])
  await target.mapAsync(MapMode.Read).catch(() => {})
  for (const buffer of [source, target]) buffer.destroy()
}
