import { protectDevice, protectionOf } from '@egpu/driver-wgpu'
import { expectedState, readBack, startSteps } from '../../packages/driver-wgpu/test/support/workload.ts'
import type { Figure } from '../figure.ts'
import { control, settledRss } from './rig.ts'

const cycles = 1000
/** What Dawn and the allocator keep for later is there after so many. */
const warmUp = 300

/** Loses a device with pipelines, bind groups and textures in use, over and over. A native crash would end the bench. */
export async function measure(): Promise<Figure[]> {
  const device = await protectDevice({ checkpoint: { intervalMs: 100 } })
  const steps = startSteps(device)
  const texture = device.createTexture({ size: [256, 256], format: 'rgba8unorm', usage: 0x12 })
  let warm = 0
  for (let cycle = 0; cycle < cycles; cycle += 1) {
    if (cycle === warmUp) warm = settledRss()
    steps.step()
    const encoder = device.createCommandEncoder()
    const view = texture.createView()
    encoder.beginRenderPass({ colorAttachments: [{ view, loadOp: 'clear', storeOp: 'store' }] }).end()
    control.loseAt('submit', 1)
    device.queue.submit([encoder.finish()])
    await device.queue.onSubmittedWorkDone()
  }
  const growth = settledRss() / warm - 1
  const state = await readBack(device, steps.state)
  const isExact = Buffer.compare(Buffer.from(state.buffer), Buffer.from(expectedState(cycles).buffer)) === 0
  const { losses } = protectionOf(device).stats
  device.destroy()
  await device.lost
  const leaked = control.liveDevices
  return [
    {
      figure: 'loss and re-create cycles survived',
      value: losses,
      unit: 'cycles',
      bar: '>= 1000',
      pass: losses >= cycles && isExact,
    },
    {
      figure: 'RSS growth',
      value: growth * 100,
      unit: '%',
      against: `cycle ${warmUp}`,
      ratio: 1 + growth,
      bar: '< 5 %',
      pass: growth < 0.05,
    },
    { figure: 'devices leaked', value: leaked, unit: 'devices', bar: '0', pass: leaked === 0 },
  ]
}
