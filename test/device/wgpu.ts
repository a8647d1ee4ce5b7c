// What test/device/wgpu.sh runs, bundled: the figures of bench/wgpu/gpu.ts, and each GPU pinned, on a machine with real ones.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { release } from 'node:os'
import { EGpuError } from '@egpu/core'
import { wgpuDriver } from '@egpu/driver-wgpu'
import { measureGpu } from '../../bench/wgpu/child/measure-gpu.ts'

const out = process.env['OUT'] ?? '/tmp/egpu-device'
mkdirSync(out, { recursive: true })
const results: Record<string, unknown> = { date: new Date().toISOString(), node: process.version, kernel: release() }

async function part(name: string, work: () => Promise<unknown>): Promise<void> {
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
