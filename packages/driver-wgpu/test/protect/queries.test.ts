import { afterEach, beforeEach, expect, test } from 'vitest'
import { protectDevice, protectionOf } from '../../src/index.ts'
import type { ProtectionEvent } from '../../src/index.ts'
import { useRealVulkan } from '../support/real-vulkan.ts'
import { read, TextureUsage, Usage } from './workloads/workload.ts'

const control = useRealVulkan()

let device: GPUDevice
let queries: GPUQuerySet
let events: ProtectionEvent[]
beforeEach(async () => {
  events = []
  device = await protectDevice({
    checkpoint: { intervalMs: Number.POSITIVE_INFINITY },
    onEvent: (event) => events.push(event),
  })
  queries = device.createQuerySet({ type: 'occlusion', count: 4, label: 'seen' })
})
afterEach(async () => {
  device?.destroy()
  await device?.lost
})

const shader = /* wgsl */ `
@vertex fn all(@builtin(vertex_index) n: u32) -> @builtin(position) vec4f {
  return vec4f(f32(n & 1u) * 4 - 1, f32(n >> 1u) * 4 - 1, 0, 1);
}
@fragment fn some() -> @location(0) vec4f { return vec4f(1); }`

/** Something is seen at each of these places. */
function look(encoder: GPUCommandEncoder, ...places: readonly number[]): void {
  const module = device.createShaderModule({ code: shader })
  const targets = [{ format: 'rgba8unorm' as const }]
  const view = device
    .createTexture({ size: [4, 4], format: 'rgba8unorm', usage: TextureUsage.RENDER_ATTACHMENT })
    .createView()
  const pass = encoder.beginRenderPass({
    colorAttachments: [{ view, loadOp: 'clear', storeOp: 'store' }],
    occlusionQuerySet: queries,
  })
  pass.setPipeline(device.createRenderPipeline({ layout: 'auto', vertex: { module }, fragment: { module, targets } }))
  for (const place of places) {
    pass.beginOcclusionQuery(place)
    pass.draw(3)
    pass.endOcclusionQuery()
  }
  pass.end()
}

/** Where something was seen, of some places. */
async function resolve(first: number, count: number): Promise<readonly boolean[]> {
  const answers = device.createBuffer({ size: count * 8, usage: Usage.QUERY_RESOLVE | Usage.COPY_SRC })
  submit((encoder) => encoder.resolveQuerySet(queries, first, count, answers, 0))
  const bytes = await read(device, answers, () => {})
  return Array.from(new BigUint64Array(bytes.slice().buffer), (samples) => samples > 0n)
}

function submit(encode: (encoder: GPUCommandEncoder) => void): void {
  const encoder = device.createCommandEncoder()
  encode(encoder)
  device.queue.submit([encoder.finish()])
}

test('results that were not resolved are not cut off by a checkpoint, also when others of the set were', async () => {
  submit((encoder) => look(encoder, 0, 1, 3))
  expect(await resolve(0, 1)).toEqual([true])
  expect(await protectionOf(device).checkpoint()).toBe(false)
  control.loseAt('submit', 1)
  expect(await resolve(1, 3)).toEqual([true, false, true])
  expect(await protectionOf(device).checkpoint()).toBe(true)
  expect(events.map(({ type }) => type)).toEqual(['lost', 'recovered', 'checkpointed'])
})

test('results that are made after the last were resolved, in the same commands, wait for the next resolve', async () => {
  const answers = device.createBuffer({ size: 8, usage: Usage.QUERY_RESOLVE })
  submit((encoder) => look(encoder, 0))
  submit((encoder) => {
    encoder.resolveQuerySet(queries, 0, 1, answers, 0)
    look(encoder, 0)
  })
  expect(await protectionOf(device).checkpoint()).toBe(false)
})

test('resolving once more what a checkpoint cut off and a loss took away is told', async () => {
  submit((encoder) => look(encoder, 0))
  expect(await resolve(0, 1)).toEqual([true])
  expect(await protectionOf(device).checkpoint()).toBe(true)
  expect(await resolve(0, 1)).toEqual([true])
  control.loseAt('submit', 1)
  await device.queue.onSubmittedWorkDone()
  expect(events.filter(({ type }) => type === 'incomplete')).toEqual([
    { type: 'incomplete', label: 'seen', format: 'query' },
  ])
})
