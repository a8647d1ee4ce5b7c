import { createHash } from 'node:crypto'
import { EGpuManager, systemClock } from '@egpu/core'
import type { ComputeTarget } from '@egpu/core'
import { probeHands, wgpuDriver } from '@egpu/driver-wgpu'
import { prepareLossRig } from '@egpu/driver-wgpu/testing'
import { probeTarget, WorkloadMigrator } from '@egpu/migrator'
import { afterAll, describe, expect, it } from 'vitest'
import { Field } from '../device/field.ts'

const rig = prepareLossRig({ disguise: 'Test GPU' })
// It counts only when it is set before anything loads Vulkan.
Object.assign(process.env, rig.environment)
afterAll(() => rig[Symbol.dispose]())

const options = { mebibytes: 16, steps: 600 }

const gpuOf = (targets: readonly ComputeTarget[]): ComputeTarget =>
  targets.find(({ kind }) => kind === 'gpu') as ComputeTarget

async function undisturbed(): Promise<string> {
  await using driver = wgpuDriver()
  const work = new Field(options)
  await using open = await driver.runtime.open(gpuOf(await driver.runtime.targets()).id)
  await work.restore(open, undefined, { signal: new AbortController().signal })
  work.resume()
  await work.finished
  await work.release({ lost: false })
  return sha256(work)
}

const sha256 = ({ result }: Field): string =>
  createHash('sha256')
    .update(result ?? '')
    .digest('hex')

async function reaches(work: Field, progress: number): Promise<void> {
  while (work.progress < progress) await new Promise((resolve) => setTimeout(resolve, 1))
}

describe("the migrator on a driver's WebGPU", () => {
  it('measures link, memory and arithmetic of a real device, and has its bytes back', async () => {
    await using manager = await EGpuManager.create({ drivers: [wgpuDriver()] })
    const target = gpuOf(await manager.targets())
    await using open = await manager.openTarget(target.id)
    await using hands = await probeHands(open)
    if (hands === undefined) throw new Error(`${target.name} is no WebGPU target`)
    // More time than a probe at attach has: a busy machine is no failure.
    const rates = await probeTarget(target, hands, { clock: systemClock, budgetMs: 60_000 })
    expect(rates.linkGBps?.toDevice).toBeGreaterThan(0)
    expect(rates.linkGBps?.fromDevice).toBeGreaterThan(0)
    expect(rates.flops).toBeGreaterThan(0)
    expect(rates.memoryGBps).toBeGreaterThan(0)
  })

  it('measures at attach, moves work to the processor and back, and has the same result to the bit', async () => {
    const expected = await undisturbed()
    await using manager = await EGpuManager.create({ drivers: [wgpuDriver()] })
    await manager.startMonitoring()
    const opened: string[] = []
    await using migrator = new WorkloadMigrator(manager, {
      probe: (open, abort) => {
        opened.push(open.target.name)
        return probeHands(open, abort)
      },
    })
    const { id } = gpuOf(await manager.targets())
    const work = new Field(options)
    const run = migrator.run(work, { startOn: id })
    await run.started
    await reaches(work, 5)
    expect((await run.moveTo('cpu')).kind).toBe('cpu')
    await reaches(work, work.progress + 2)
    expect((await run.moveTo(id)).kind).toBe('gpu')
    await run.finished
    expect(sha256(work)).toBe(expected)
    await expect.poll(() => opened).toEqual(['Test GPU'])
  })
})
