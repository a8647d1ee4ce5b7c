import { afterEach, expect, test } from 'vitest'
import { protectDevice, protectionOf } from '../../src/index.ts'
import { useRealVulkan } from '../support/real-vulkan.ts'
import { read, readTexture, TextureUsage, Usage } from './workloads/workload.ts'

const control = useRealVulkan()

let device: GPUDevice
afterEach(async () => {
  device?.destroy()
  await device?.lost
})

const usage = TextureUsage.RENDER_ATTACHMENT | TextureUsage.COPY_SRC | TextureUsage.COPY_DST
const colors = Uint8Array.from({ length: 64 * 4 }, (_, at) => at)

/** Work that would replace the picture, and that the device refuses as a whole. */
function refused(picture: GPUTexture): GPUCommandBuffer {
  const small = device.createBuffer({ size: 4, usage: Usage.COPY_SRC | Usage.COPY_DST })
  const encoder = device.createCommandEncoder()
  const view = picture.createView()
  encoder.beginRenderPass({ colorAttachments: [{ view, loadOp: 'clear', storeOp: 'store' }] }).end()
  encoder.clearBuffer(small, 0, 64)
  return encoder.finish()
}

test.each(['heard as an event', 'heard by a scope', 'in a scope that is still open'])(
  'work that the device refuses while a checkpoint is drained, %s, has replaced nothing',
  async (way) => {
    device = await protectDevice({ checkpoint: { intervalMs: Number.POSITIVE_INFINITY } })
    const heard: boolean[] = []
    device.onuncapturederror = (event) => {
      event.preventDefault()
      heard.push(true)
    }
    const picture = device.createTexture({ size: [64, 1], format: 'rgba8unorm', usage })
    device.queue.writeTexture({ texture: picture }, colors, {}, [64, 1])
    // What cannot be replaced is drained first, and takes until after the work below.
    const other = device.createBuffer({ size: 4096, usage: Usage.COPY_DST })
    device.queue.writeBuffer(other, 0, new Uint8Array(4096).fill(1))
    const saving = protectionOf(device).checkpoint()
    // It freezes in the next turns, and then waits for the device.
    for (let turn = 0; turn < 5; turn += 1) await Promise.resolve()
    if (way !== 'heard as an event') device.pushErrorScope('validation')
    device.queue.submit([refused(picture)])
    if (way === 'heard by a scope') heard.push((await device.popErrorScope()) !== null)
    await saving
    control.loseAt('submit', 1)
    await device.queue.onSubmittedWorkDone()
    expect([...(await readTexture(device, picture, () => {}))]).toEqual([...colors])
    if (way === 'in a scope that is still open') heard.push((await device.popErrorScope()) !== null)
    // One for the commands, one for their submit, where no scope takes both together.
    expect(heard).toEqual(way === 'heard as an event' ? [true, true] : [true])
    // The next one has it, without relying on anything.
    expect(await protectionOf(device).checkpoint()).toBe(true)
    control.loseAt('submit', 1)
    const copy = device.createBuffer({ size: 256, usage: Usage.COPY_SRC | Usage.COPY_DST })
    const encoder = device.createCommandEncoder()
    encoder.copyTextureToBuffer({ texture: picture }, { buffer: copy }, [64, 1])
    device.queue.submit([encoder.finish()])
    expect([...(await read(device, copy, () => {}))]).toEqual([...colors])
  },
)
