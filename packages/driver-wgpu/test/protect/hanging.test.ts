import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { useRealVulkan } from '../support/real-vulkan.ts'

const control = useRealVulkan()

test('work that hangs every device is named and given up, and the process goes on', () => {
  // In a process of its own: SwiftShader's threads work on after it.
  const script = `
    const { protectDevice } = await import('@egpu/driver-wgpu')
    const waiting = setInterval(() => {}, 1000)
    const device = await protectDevice({
      backoffMs: [0, 10],
      heartbeat: { intervalMs: 20, hangMs: 500 },
      checkpoint: { intervalMs: Infinity },
    })
    const code = \`
      @group(0) @binding(0) var<storage, read_write> word: array<u32>;
      @compute @workgroup_size(1) fn main() { for (var i = 0u; i < 4294967295u; i += 1u) { word[0] = word[0] * 3u + i; } }\`
    const module = device.createShaderModule({ code })
    const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module } })
    const buffer = device.createBuffer({ size: 4, usage: 0x84 })
    const entries = [{ binding: 0, resource: { buffer } }]
    const encoder = device.createCommandEncoder()
    const pass = encoder.beginComputePass()
    pass.setPipeline(pipeline)
    pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }))
    pass.dispatchWorkgroups(1)
    pass.end()
    device.queue.submit([encoder.finish({ label: 'endless' })])
    const { code: reason, message } = await device.queue.onSubmittedWorkDone().catch((error) => error)
    console.log(reason, message)
    process.exit(0)`
  const args = ['--conditions=@egpu/source', '--import=tsx', '--input-type=module', '-e', script]
  const cwd = fileURLToPath(new URL('../..', import.meta.url))
  const { stdout, status } = spawnSync(process.execPath, args, { cwd, encoding: 'utf8', timeout: 100_000 })
  expect({ stdout, status }).toEqual({ stdout: expect.stringMatching(/^EGPU_WORKLOAD_FAILED .*endless/), status: 0 })
  control.forgetDevices()
})
