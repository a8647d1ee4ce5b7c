import { checkpointBuffers, protectDevice, wgpuDriver } from '@egpu/driver-wgpu'
import type { OpenTarget } from '@egpu/core'
import type { Figure } from '../../figure.ts'
import { percentile } from '../../figure.ts'
import { incrementalFigure, protectedFigure } from './changed-bytes.ts'
import { heartbeatFigure } from './heartbeat-cost.ts'
import { bytes, mebibyte, naiveReader } from './state.ts'

const pieceBytes = 16 * mebibyte

const gigabytesPerSecond = (ms: number): number => bytes / 1e6 / ms

async function timed(work: () => unknown): Promise<number> {
  const begun = performance.now()
  await work()
  return performance.now() - begun
}

/** The best of several rounds after a first one that only warms up. */
async function best(rounds: number, work: () => unknown): Promise<number> {
  await work()
  const times: number[] = []
  for (let round = 0; round < rounds; round += 1) times.push(await timed(work))
  return Math.min(...times)
}

async function checkpointFigures(target: OpenTarget<GPUDevice>): Promise<Figure[]> {
  const { handle: device } = target
  const state = device.createBuffer({ size: bytes, usage: 0x8c })
  const other = device.createBuffer({ size: bytes, usage: 0xc })
  const copyMs = await best(5, async () => {
    const encoder = device.createCommandEncoder()
    encoder.copyBufferToBuffer(state, 0, other, 0, bytes)
    device.queue.submit([encoder.finish()])
    await device.queue.onSubmittedWorkDone()
  })
  using checkpoint = checkpointBuffers(target, { state })
  const freezeMs = await best(5, async () => {
    await using _ = checkpoint.freeze(0)
    await device.queue.onSubmittedWorkDone()
  })
  await using frozen = checkpoint.freeze(0)
  // Host memory is used again from one checkpoint to the next, on both sides of the comparison.
  const host = new Uint8Array(bytes).fill(1)
  const drainMs = await best(4, () => frozen.drainInto('state', host))
  const freshMs = await best(2, async () => {
    for await (const piece of frozen.read('state')) if (piece.byteLength === 0) throw new Error('an empty piece')
  })
  const naiveMs = await best(3, naiveReader(device, state, host))
  const saved = {
    progress: 0,
    parts: [{ name: 'state', byteLength: bytes }],
    async *read() {
      for (let at = 0; at < bytes; at += pieceBytes) yield host.subarray(at, at + pieceBytes)
    },
  }
  const restoreMs = await best(4, () => checkpoint.restore(saved))
  const writeMs = await best(3, async () => {
    device.queue.writeBuffer(state, 0, host)
    await device.queue.onSubmittedWorkDone()
  })
  const [drain, fresh, naive] = [drainMs, freshMs, naiveMs].map(gigabytesPerSecond) as [number, number, number]
  const [restore, write] = [restoreMs, writeMs].map(gigabytesPerSecond) as [number, number]
  return [
    {
      figure: 'freeze pause',
      value: freezeMs,
      unit: 'ms',
      against: `plain device copy of the same bytes, ${copyMs.toFixed(2)} ms`,
      ratio: freezeMs / copyMs,
      bar: '<= 1.5 x',
      pass: freezeMs <= 1.5 * copyMs,
    },
    {
      figure: 'drain to host memory',
      value: drain,
      unit: 'GB/s',
      against: `one staging buffer, mapped and copied over and over, ${naive.toFixed(1)} GB/s`,
      ratio: drain / naive,
      bar: '>= 25 GB/s and >= 3 x',
      pass: drain >= 25 && drain >= 3 * naive,
    },
    {
      figure: 'drain to host memory that has to be made first',
      value: fresh,
      unit: 'GB/s',
      against: `memory that was used before, ${drain.toFixed(1)} GB/s`,
      ratio: fresh / drain,
    },
    {
      figure: 'restore',
      value: restore,
      unit: 'GB/s',
      against: `writeBuffer, ${write.toFixed(1)} GB/s`,
      ratio: restore / write,
      bar: '>= 22 GB/s and >= 7 x',
      pass: restore >= 22 && restore >= 7 * write,
    },
  ]
}

/** Work that keeps the GPU busy, in milliseconds for one round of it. */
function gpuBoundRound(device: GPUDevice): () => Promise<number> {
  const words = bytes / 256
  const buffer = device.createBuffer({ size: words * 4, usage: 0x80 })
  const code = `@group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {
      var v = x[id.x];
      for (var i = 0u; i < 4096u; i += 1u) { v = v * 1664525u + 1013904223u; }
      x[id.x] = v;
    }`
  const pipeline = device.createComputePipeline({
    layout: 'auto',
    compute: { module: device.createShaderModule({ code }) },
  })
  const group = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: [{ binding: 0, resource: { buffer } }],
  })
  return () =>
    timed(async () => {
      for (let at = 0; at < 100; at += 1) {
        const encoder = device.createCommandEncoder()
        const pass = encoder.beginComputePass()
        pass.setPipeline(pipeline)
        pass.setBindGroup(0, group)
        pass.dispatchWorkgroups(words / 256)
        pass.end()
        device.queue.submit([encoder.finish()])
      }
      await device.queue.onSubmittedWorkDone()
    })
}

async function overheadFigure(bare: GPUDevice): Promise<Figure> {
  const guarded = await protectDevice()
  const [plain, watched] = [gpuBoundRound(bare), gpuBoundRound(guarded)]
  const times = { plain: [] as number[], watched: [] as number[] }
  // Several rounds on end: taking turns, one would pay for the other's garbage.
  for (let block = 0; block < 4; block += 1) {
    for (const [name, work] of [
      ['plain', plain],
      ['watched', watched],
    ] as const) {
      for (let round = 0; round < 8; round += 1) {
        const ms = await work()
        if (round > 1) times[name].push(ms)
      }
    }
  }
  guarded.destroy()
  await guarded.lost
  const ratio = percentile(times.watched, 0.5) / percentile(times.plain, 0.5)
  return {
    figure: 'GPU-bound work on the protected device',
    value: percentile(times.watched, 0.5),
    unit: 'ms',
    against: `bare device, ${percentile(times.plain, 0.5).toFixed(2)} ms`,
    ratio,
    bar: '<= 1.01 x',
    pass: ratio <= 1.01,
  }
}

/** The figures of one GPU, the first that WebGPU shows. Takes 5 GiB of its memory and about a minute. */
export async function measureGpu(): Promise<{ readonly gpu: string; readonly figures: readonly Figure[] }> {
  await using driver = wgpuDriver()
  const [target] = await driver.runtime.targets()
  if (target === undefined) throw new Error(`no adapter: ${JSON.stringify(await driver.probe())}`)
  const open = await driver.runtime.open(target.id)
  const figures = [
    ...(await checkpointFigures(open)),
    await incrementalFigure(open),
    ...(await protectedFigure()),
    await overheadFigure(open.handle),
    await heartbeatFigure(open.handle),
  ]
  return { gpu: target.name, figures }
}
