import { appendFileSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EGpuManager } from '@egpu/core'
import { journalDriver } from './journal-driver.ts'

const path = join(mkdtempSync(join(tmpdir(), 'egpu-journal-')), 'gpus.jsonl')
const gpu = { serial: 'a1b2', name: 'Radeon RX 7600' }
const write = (present: boolean): void => appendFileSync(path, `${JSON.stringify({ ...gpu, present })}\n`)

write(true)
await using manager = await EGpuManager.create({ drivers: [journalDriver(path)] })
for (const device of manager.devices) console.log(`${device.gpu.name} is ${device.state} (${device.id})`)
await manager.startMonitoring()
for (const type of ['disconnected', 'returned'] as const) {
  const happened = manager.next(type, { signal: AbortSignal.timeout(10_000) })
  write(type === 'returned')
  const { device } = await happened
  console.log(`${device.gpu.name} ${type}, epoch ${device.epoch}`)
}
