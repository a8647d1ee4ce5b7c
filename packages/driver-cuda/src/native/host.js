// A child process that makes the calls into NVIDIA's libraries, so that one that hangs or crashes takes this process
// and not the application, and so that a closed host holds no device node. ../host/native-host.ts starts it;
// ../host/protocol.ts has the messages.
import { Worker } from 'node:worker_threads'
import { Cuda } from './cuda.js'
import { openNvml as loadNvml } from './libraries.js'
import { Nvml, NvmlError } from './nvml.js'

/** @type {{ nvmlLibrary: string, cudaLibrary: string, busIds: readonly string[] | undefined }} */
const config = JSON.parse(process.argv[2] ?? '{}')

/** @type {Nvml | undefined} */
let nvml
/** @type {Cuda | undefined} */
let cuda
/** @type {{ worker: Worker, stop: Int32Array } | undefined} */
let events
/** @type {Promise<void> | undefined} */
let watching

function openNvml() {
  nvml ??= new Nvml(config.nvmlLibrary)
  return nvml
}

function openCuda() {
  cuda ??= new Cuda(config.cudaLibrary)
  return cuda
}

/** @type {Record<string, (args: any) => unknown>} */
const calls = {
  'nvml.load': () => void loadNvml(config.nvmlLibrary),
  'nvml.list': () => ({ driverVersion: openNvml().driverVersion(), devices: openNvml().list(config.busIds) }),
  'nvml.health': ({ busId }) => openNvml().health(busId),
  'nvml.details': ({ busId }) => openNvml().details(busId),
  'nvml.processes': () => openNvml().processes(),
  'nvml.watch': watchEvents,
  'cuda.version': () => ({ version: openCuda().version(), canCheckpoint: openCuda().canCheckpoint }),
  'cuda.initialize': () => ({ result: openCuda().initialize() }),
  'cuda.state': ({ pid }) => openCuda().state(pid),
  'cuda.lock': ({ pid, timeoutMs }) => openCuda().lock(pid, timeoutMs),
  'cuda.checkpoint': ({ pid }) => openCuda().checkpoint(pid),
  'cuda.restore': ({ pid, gpuPairs }) => openCuda().restore(pid, gpuPairs),
  'cuda.unlock': ({ pid }) => openCuda().unlock(pid),
  'cuda.hold': ({ pid, held }) => openCuda().hold(pid, held),
  'host.memory': () => process.memoryUsage.rss(),
  'host.cpu': () => process.cpuUsage(),
}

/** Resolves once the events are being waited for. @returns {Promise<void>} */
function watchEvents() {
  return (watching ??= startEvents())
}

/** @returns {Promise<void>} */
function startEvents() {
  return new Promise((resolve, reject) => {
    const stop = new Int32Array(new SharedArrayBuffer(4))
    const worker = new Worker(new URL('./event-worker.js', import.meta.url), {
      workerData: { library: config.nvmlLibrary, busIds: config.busIds, stop },
    })
    worker.on('message', (message) => {
      if (message.ready === true) resolve()
      else reply({ event: message })
    })
    worker.on('error', reject)
    events = { worker, stop }
  })
}

process.on('message', (/** @type {{ id: number, call: string, args: unknown }} */ { id, call, args }) => {
  void answer(id, call, args)
})

/** @param {number} id @param {string} call @param {unknown} args */
async function answer(id, call, args) {
  try {
    reply({ id, value: await calls[call]?.(args) })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    reply({ id, error: { message, nvmlResult: error instanceof NvmlError ? error.result : undefined } })
  }
}

/** Whoever asked may have died meanwhile; without a callback that would end us before we have let everybody go. */
function reply(/** @type {object} */ message) {
  process.send?.(message, () => undefined)
}

process.on('disconnect', () => {
  cuda?.letAllGo()
  nvml?.close()
  if (events !== undefined) Atomics.store(events.stop, 0, 1)
  process.exit(0)
})
