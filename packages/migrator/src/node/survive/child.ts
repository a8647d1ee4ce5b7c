import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { EGpuManager } from '@egpu/core'
import { WorkloadMigrator } from '../../workload-migrator.ts'
import { sendable } from './protocol.ts'
import type { FromChild, FromParent } from './protocol.ts'
import { RemoteStore } from './remote-store.ts'
import type { Work, WorkSetup } from './survive.ts'

/** How often the parent hears that the event loop turns. */
const heartbeatMs = 500

/** The process that does the work: it may be killed by a driver at any time, or by its parent. */
async function main(path: string, parent: string): Promise<void> {
  const send = (message: FromChild): void => {
    process.send?.(message)
  }
  const store = new RemoteStore(send)
  const stop = new AbortController()
  process.on('message', (message: FromParent) => {
    if (message.type === 'answer') store.answered(message)
    else stop.abort(new Error('the parent asked for the end'))
  })
  process.on('disconnect', () => process.exit(1))
  watchParent(Number(parent))
  let progress: number | undefined
  setInterval(() => send({ type: 'alive', progress }), heartbeatMs).unref()
  send({ type: 'alive', progress })
  const setup = await setupOf(path).catch((error: unknown) => send({ type: 'unready', error: sendable(error) }))
  if (setup === undefined) return
  const { drivers, workload, config, result } = setup
  await using manager = await EGpuManager.create({ drivers })
  const forward = (async () => {
    for await (const { type, ...event } of manager.events({ signal: stop.signal })) {
      if (type.startsWith('migration-') || type.startsWith('checkpoint-') || type === 'lost') {
        send({ type: 'event', event: JSON.parse(JSON.stringify({ type, ...event })) })
      }
    }
  })()
  await manager.startMonitoring()
  await using migrator = new WorkloadMigrator(manager, { ...config, store })
  setInterval(() => (progress = workload.progress), heartbeatMs / 2).unref()
  const run = migrator.run(workload, { signal: stop.signal, keepCheckpoints: true })
  try {
    await run.finished
  } catch (error) {
    if (stop.signal.aborted) return
    send({ type: 'failed', error: sendable(error) })
    return
  } finally {
    stop.abort()
    await forward
  }
  send({ type: 'finished', result: await result?.() })
}

async function setupOf(path: string): Promise<WorkSetup> {
  const module = (await import(path)) as { readonly default?: Work }
  if (typeof module.default !== 'function') throw new TypeError(`${path} has no function as its default export`)
  const setup = (await module.default()) as Partial<WorkSetup> | undefined
  const { drivers, workload } = setup ?? {}
  if (!Array.isArray(drivers) || typeof workload !== 'object' || workload === null) {
    throw new TypeError(`the default export of ${path} must give { drivers, workload }`)
  }
  return setup as WorkSetup
}

/** Nobody else would end a process whose event loop stands still once its parent was killed. */
function watchParent(pid: number): void {
  try {
    const thread = new Worker(createRequire(import.meta.url).resolve('#parent-watch'), {
      workerData: pid,
      execArgv: [],
    })
    thread.on('error', () => undefined)
    thread.unref()
  } catch {
    // A bundler lost the file: then only an event loop that turns hears of it.
  }
}

const [path, parent] = process.argv.slice(2)
if (path !== undefined && parent !== undefined && process.send !== undefined) {
  await main(path, parent)
  process.disconnect()
}
