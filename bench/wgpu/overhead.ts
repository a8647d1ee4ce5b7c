import { protectDevice, wgpuDriver } from '@egpu/driver-wgpu'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'
import './rig.ts'

const passes = 40
const commandsPerPass = 600
const rounds = 60

/**
 * CPU time of encoding and submitting, in microseconds for each command; hardly anything is dispatched, so the GPU has no say. The
 * tenth percentile of the rounds: other processes only ever add to it.
 */
async function microsecondsPerCommand(devices: Readonly<Record<'bare' | 'guarded', GPUDevice>>): Promise<{
  readonly bare: number
  readonly guarded: number
}> {
  const samples: Record<'bare' | 'guarded', number[]> = { bare: [], guarded: [] }
  const encoders = { bare: prepare(devices.bare), guarded: prepare(devices.guarded) }
  for (let round = 0; round < rounds; round += 1) {
    for (const kind of ['bare', 'guarded'] as const) {
      const begun = performance.now()
      encoders[kind]()
      samples[kind].push(((performance.now() - begun) * 1000) / (passes * commandsPerPass))
      await devices[kind].queue.onSubmittedWorkDone()
    }
  }
  return { bare: percentile(samples.bare.slice(10), 0.1), guarded: percentile(samples.guarded.slice(10), 0.1) }
}

function prepare(device: GPUDevice): () => void {
  const buffer = device.createBuffer({ size: 1024, usage: 0x80 })
  const module = device.createShaderModule({
    code: '@group(0) @binding(0) var<storage, read_write> x: array<u32>; @compute @workgroup_size(1) fn main() { x[0] = 1u; }',
  })
  const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module } })
  const group = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: [{ binding: 0, resource: { buffer } }],
  })
  return () => {
    for (let at = 0; at < passes; at += 1) {
      const encoder = device.createCommandEncoder()
      const pass = encoder.beginComputePass()
      for (let command = 0; command < commandsPerPass; command += 2) {
        pass.setPipeline(pipeline)
        pass.setBindGroup(0, group)
      }
      pass.dispatchWorkgroups(1)
      pass.end()
      device.queue.submit([encoder.finish()])
    }
  }
}

/** What recording costs the CPU, next to the same calls on the bare device. */
export async function measure(): Promise<Figure[]> {
  await using driver = wgpuDriver({ describeDevice: () => ({}) })
  const [target] = await driver.runtime.targets()
  const bare = await driver.runtime.open(target?.id ?? '')
  const guarded = await protectDevice()
  const cost = await microsecondsPerCommand({ bare: bare.handle, guarded })
  guarded.destroy()
  await guarded.lost
  const added = cost.guarded - cost.bare
  return [
    {
      figure: 'CPU time added to a recorded command',
      value: added,
      unit: 'µs',
      against: `bare device, ${cost.bare.toFixed(2)} µs`,
      ratio: cost.guarded / cost.bare,
      bar: '<= 2 µs',
      pass: added <= 2,
    },
  ]
}
