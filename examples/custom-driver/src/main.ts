import { appendFileSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EGpuManager } from '@egpu/core'
import { journalDriver } from './journal-driver.ts'

const path = join(mkdtempSync(join(tmpdir(), 'egpu-journal-')), 'gpus.jsonl')
const write = (present: boolean): string => `${JSON.stringify({ serial: 'a1b2', name: 'Radeon RX 7600', present })}\n`
writeFileSync(path, write(true))

await using manager = await EGpuManager.create({ drivers: [journalDriver(path)] })
for (const { id, gpu, state } of manager.devices) console.log(`${gpu.name} is ${state} (${id})`)

manager.on('disconnected', ({ device }) => console.log(`${device.gpu.name} is gone`))
manager.on('returned', ({ device }) => console.log(`${device.gpu.name} is back, epoch ${device.epoch}`))
await manager.startMonitoring()

const signal = AbortSignal.timeout(10_000)
const gone = manager.next('disconnected', { signal })
appendFileSync(path, write(false))
await gone
const back = manager.next('returned', { signal })
appendFileSync(path, write(true))
await back
