import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { EGpuManager } from '@egpu/core'
import { WorkloadMigrator } from '../../workload-migrator.ts'
import { sendable, sendableEvent } from './protocol.ts'
import type { FromChild, StoreAnswer } from './protocol.ts'
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
  process.on('message', (answer: StoreAnswer) => store.answered(answer))
  process.on('disconnect', () => process.exit(1))
  watchParent(Number(parent))
  let progress: number | undefined
  setInterval(() => send({ type: 'alive', progress }), heartbeatMs).unref()
  send({ type: 'alive', progress })
  try {
    const { drivers, workload, config, result } = await setupOf(path)
    await using manager = await EGpuManager.create({ drivers })
    const forwarded = forward(manager, stop.signal, send)
    await manager.startMonitoring()
    await using migrator = new WorkloadMigrator(manager, { ...config, store })
    setInterval(() => (progress = workload.progress), heartbeatMs / 2).unref()
    const run = migrator.run(workload, { signal: stop.signal, keepCheckpoints: true })
    // Told before anything is closed, which may hang in a driver.
    try {
      await run.finished.finally(() => stop.abort())
      await forwarded
      send({ type: 'finished', result: await result?.() })
    } catch (error) {
      await forwarded
      send({ type: 'failed', error: sendable(error) })
    }
  } catch (error) {
    send({ type: 'unready', error: sendable(error) })
  }
}

async function forward(manager: EGpuManager, signal: AbortSignal, send: (message: FromChild) => void): Promise<void> {
  for await (const event of manager.events({ signal })) {
    const isOurs = event.type.startsWith('migration-') || event.type.startsWith('checkpoint-')
    if (isOurs || event.type === 'lost') send({ type: 'event', event: sendableEvent(event) })
  }
}

async function setupOf(path: string): Promise<WorkSetup> {
  const module = (await import(path).catch((error: unknown) => {
    throw explained(error)
  })) as { readonly default?: Work }
  if (typeof module.default !== 'function') throw new TypeError(`${path} has no function as its default export`)
  const setup = (await module.default()) as Partial<WorkSetup> | undefined
  const { drivers, workload } = setup ?? {}
  if (!Array.isArray(drivers) || typeof workload !== 'object' || workload === null) {
    throw new TypeError(`the default export of ${path} must give { drivers, workload }`)
  }
  return setup as WorkSetup
}

/** Where it is no JavaScript, Node says on the terminal alone. */
function explained(error: unknown): unknown {
  if (!(error instanceof SyntaxError)) return error
  return new SyntaxError(`${error.message}; \`node --check\` of it, or of what it imports, shows where`, {
    cause: error,
  })
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
