import { EGpuManager } from '@egpu/core'
import { simDriver } from '@egpu/driver-sim'
import { WorkloadMigrator } from '@egpu/migrator'
import { CountPrimes } from './count-primes.ts'

/** Counts primes on a simulated external GPU whose cable is pulled in the middle. Resolves to the count. */
export async function survive(upTo: number, say: (line: string) => void): Promise<number> {
  const driver = simDriver({ enclosures: [{ name: 'Core X V2', plugged: true, gpus: [{ name: 'external GPU' }] }] })
  await using manager = await EGpuManager.create({ drivers: [driver] })
  await manager.startMonitoring()
  manager.on('lost', ({ device }) => say(`lost: ${device.gpu.name}`))
  manager.on('migration-completed', ({ migration: { to, rtoMs, lostProgress } }) =>
    say(`goes on at ${to?.name} after ${rtoMs.toFixed(0)} ms, ${lostProgress} numbers to try again`),
  )
  await using migrator = new WorkloadMigrator(manager, { checkpointIntervalMs: 20 })
  const work = new CountPrimes(upTo)
  const run = migrator.run(work)
  say(`begins on ${(await run.started).name}`)
  while (work.progress < upTo / 2) await new Promise((resolve) => setTimeout(resolve, 1))
  driver.machine.enclosures[0]?.yank()
  await run.finished
  return work.count
}
