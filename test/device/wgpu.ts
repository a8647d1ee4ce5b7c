/**
 * What test/device/wgpu.sh runs, bundled, on a machine with real GPUs: the figures of bench/wgpu/gpu.ts, the migrator's
 * probe, work in the care of the migrator, and each GPU pinned. EGPU_DEVICE_PARTS=probe,migrator runs these parts only,
 * EGPU_DEVICE_MIB and EGPU_DEVICE_RUN_MS are the size and length of the migrator's work.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { release } from 'node:os'
import { EGpuError } from '@egpu/core'
import { wgpuDriver } from '@egpu/driver-wgpu'
import { measureGpu } from '../../bench/wgpu/child/measure-gpu.ts'
import { migratorFigures, probeFigures } from './migrator.ts'

const out = process.env['OUT'] ?? '/tmp/egpu-device'
mkdirSync(out, { recursive: true })
const results: Record<string, unknown> = { date: new Date().toISOString(), node: process.version, kernel: release() }

const parts = process.env['EGPU_DEVICE_PARTS']?.split(',')

async function part(name: string, work: () => Promise<unknown>): Promise<void> {
  if (parts?.includes(name) === false) return
  const begun = performance.now()
  try {
    results[name] = await work()
  } catch (error) {
    results[name] = { error: String(error), code: EGpuError.is(error) ? error.code : undefined }
  }
  console.log(name, Math.round(performance.now() - begun), 'ms', JSON.stringify(results[name], undefined, 1))
  writeFileSync(`${out}/wgpu.json`, `${JSON.stringify(results, undefined, 2)}\n`)
}

await part('driver', async () => readFileSync('/proc/driver/nvidia/version', 'utf8').split('\n')[0])
await part('figures', async () => await measureGpu())
await part('probe', async () => {
  await using driver = wgpuDriver()
  const targets = await driver.runtime.targets()
  const target = targets.find(({ kind }) => kind === 'gpu') ?? targets[0]
  if (target === undefined) throw new Error(`no adapter: ${JSON.stringify(await driver.probe())}`)
  await using open = await driver.runtime.open(target.id)
  return { gpu: target.name, figures: await probeFigures(open) }
})
await part('migrator', async () => ({
  figures: await migratorFigures({
    mebibytes: Number(process.env['EGPU_DEVICE_MIB'] ?? 64),
    runMs: Number(process.env['EGPU_DEVICE_RUN_MS'] ?? 10_000),
  }),
}))
await part('pins', async () => {
  await using driver = wgpuDriver()
  const { devices } = await driver.list()
  const pins: unknown[] = []
  for (const { key, identity } of devices) {
    const pin = await driver.pin(identity).catch((error: unknown) => String(error))
    pins.push({ key, identity, pin })
  }
  return pins
})
process.exit(0)
