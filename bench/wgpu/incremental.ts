import { protectDevice, protectionOf } from '@egpu/driver-wgpu'
import type { Figure } from '../figure.ts'
import './rig.ts'

const bufferBytes = 2 ** 20
const buffers = 64
const dirtyBytes = 4096

/** Bytes a checkpoint moves, next to those that changed: a little in every fourth of many buffers. */
export async function measure(): Promise<Figure[]> {
  let moved = 0
  const device = await protectDevice({
    checkpoint: { intervalMs: Infinity, maxLogBytes: Infinity },
    onEvent: (event) => {
      if (event.type === 'checkpointed') moved = event.bytes
    },
  })
  const all = Array.from({ length: buffers }, () => device.createBuffer({ size: bufferBytes, usage: 0x8c }))
  for (const buffer of all) device.queue.writeBuffer(buffer, 0, new Uint8Array(bufferBytes))
  await protectionOf(device).checkpoint()
  const full = moved
  const part = new Uint8Array(dirtyBytes).fill(1)
  const touched = all.filter((_, index) => index % 4 === 0)
  for (const [index, buffer] of touched.entries()) device.queue.writeBuffer(buffer, index * dirtyBytes, part)
  await protectionOf(device).checkpoint()
  device.destroy()
  await device.lost
  const ratio = moved / (touched.length * dirtyBytes)
  return [
    {
      figure: 'bytes moved by an incremental checkpoint',
      value: moved,
      unit: 'bytes',
      against: `${touched.length * dirtyBytes} bytes changed, ${full} bytes in all`,
      ratio,
      bar: '<= 1.1 x the changed bytes',
      pass: ratio <= 1.1,
    },
  ]
}
