import { join } from 'node:path'
import { EGpuManager } from '@egpu/core'
import { simDriver } from '@egpu/driver-sim'
import { WorkloadMigrator } from '@egpu/migrator'
import { directoryJournal, directoryStore } from '@egpu/migrator/node'
import { CheckedMixer } from './checked-mixer.ts'
import { life as task } from './protocol.ts'
import type { FromLife, KillAt } from './protocol.ts'
import { pointedFs, pointedJournal } from './points.ts'
import type { Point } from './points.ts'

const [directory = '', kill = ''] = process.argv.slice(2)
const killAt = kill === '' ? undefined : (JSON.parse(kill) as KillAt)
const visits: Record<string, number> = {}

/** No handler, no `finally`, no buffer that is written out: what was not done by now is not done. */
const point: Point = (name) => {
  const visit = (visits[name] = (visits[name] ?? 0) + 1)
  if (killAt?.point === name && killAt.visit === visit) process.kill(process.pid, 'SIGKILL')
}

const say = (message: FromLife): void => void process.send?.(message)

/** From the start of the process to the end of the work, or until it is killed: nothing but the directory is left then. */
async function live(): Promise<void> {
  const driver = simDriver({
    enclosures: ['A', 'B'].map((name) => ({ id: `box-${name}`, plugged: true, gpus: [{ id: `gpu-${name}`, name }] })),
  })
  const manager = await EGpuManager.create({ drivers: [driver] })
  for (const type of ['migration-step', 'migration-completed', 'checkpoint-saved', 'checkpoint-failed'] as const) {
    manager.on(type, (event) => {
      const step = event.type === 'migration-step' ? ` ${event.step}` : ''
      if (event.type === 'checkpoint-saved') say({ type: 'saved', progress: event.progress })
      point(`${type}${step}`)
    })
  }
  await manager.startMonitoring()
  const files = directoryJournal(join(directory, 'journal'))
  const journal = pointedJournal(
    {
      ...files,
      write: async (record, options) => {
        await files.write(record, options)
        say({ type: 'remembered', isSo: true })
      },
      remove: async (workloadId, options) => {
        say({ type: 'remembered', isSo: false })
        await files.remove(workloadId, options)
      },
    },
    point,
  )
  const store = directoryStore(join(directory, 'store'), { fs: pointedFs(point), chunkBytes: 512 })
  const migrator = new WorkloadMigrator(manager, { store, journal, checkpointIntervalMs: 10 })
  const isRemembered = (await migrator.interrupted()).some(({ workloadId }) => workloadId === 'job')
  say({ type: 'born', isRemembered })
  const mixer = new CheckedMixer({
    id: 'job',
    ...task,
    directory,
    say,
    fault: (call) => {
      point(`workload ${call}`)
      return undefined
    },
  })
  const run = migrator.run(mixer, { keepCheckpoints: true })
  const moving = setInterval(() => {
    const to = run.where?.name === 'A' ? 'B' : 'A'
    run.moveTo(`sim/sim:gpu-${to}`).catch(() => undefined)
  }, 50)
  await run.finished
  clearInterval(moving)
  // Removed before it is known that the result has arrived, nothing would be left of the work.
  const known = new Promise((resolve) => process.once('message', resolve))
  say({ type: 'finished', result: mixer.result, doubleOwners: mixer.doubleOwners })
  await known
  await migrator.checkpoints.forget('job')
  await migrator.close()
  await store.close()
  await manager.close()
  say({ type: 'visits', visits })
  process.disconnect()
}

await live()
