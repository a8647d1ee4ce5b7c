// A child process that makes the calls into NVIDIA's libraries, so that one that hangs or crashes takes this process
// and not the application, and so that a closed host holds no device node. ../host/native-host.ts starts it;
// ../host/protocol.ts has the messages.
import { Cuda } from './cuda.js'
import { dieWithParent, openNvml as loadNvml } from './libraries.js'
import { Nvml, NvmlError } from './nvml.js'
import { ResourceManager } from './resource-manager.js'

/** @type {import('../host/protocol.ts').HostConfig} */
const config = JSON.parse(process.argv[2] ?? '{}')
const starter = Number(process.argv[3])

/** NVML_ERROR_TIMEOUT, and how long one wait is. */
const TIMEOUT = 10
const waitMs = 5_000
/** Xid errors, GPU unavailable, recovery action changed. PState and clock changes are no news. */
const wantedEvents = 0x8n | 0x4000n | 0x8000n

/** @type {Nvml | undefined} */
let nvml
/** @type {Cuda | undefined} */
let cuda
let isWatching = false

/** Calls into NVML may hang and hold off everything else here; those that move processes are made in threads, elsewhere. */
function openNvml() {
  if (nvml !== undefined) return nvml
  loadNvml(config.nvmlLibrary)
  dieWithParent(config.systemLibrary, starter)
  nvml = new Nvml(config.nvmlLibrary)
  return nvml
}

/** Knows the GPUs, also when this process replaces one that was asked to list them. */
function listedNvml() {
  const opened = openNvml()
  if (!opened.isListed) opened.list(config.busIds)
  return opened
}

function openCuda() {
  cuda ??= new Cuda(config.cudaLibrary)
  return cuda
}

/** @type {Record<string, (args: any) => unknown>} */
const calls = {
  'nvml.load': () => void loadNvml(config.nvmlLibrary),
  'nvml.list': () => ({ driverVersion: openNvml().driverVersion(), devices: openNvml().list(config.busIds) }),
  'nvml.health': ({ busId, withLink }) => openNvml().health(busId, withLink),
  'nvml.details': ({ busId }) => openNvml().details(busId),
  'nvml.processes': () => listedNvml().processes(),
  'nvml.watch': watchEvents,
  'kernel.imported': ({ pids }) => importedBytes(pids),
  'cuda.version': () => ({ version: openCuda().version(), canCheckpoint: openCuda().canCheckpoint }),
  'cuda.initialize': async () => ({ result: await openCuda().initialize() }),
  'cuda.state': ({ pid }) => openCuda().state(pid),
  'cuda.states': ({ pids }) => openCuda().states(pids),
  'cuda.lock': ({ pid, timeoutMs }) => openCuda().lock(pid, timeoutMs),
  'cuda.checkpoint': ({ pid }) => openCuda().checkpoint(pid),
  'cuda.restore': ({ pid, gpuPairs }) => openCuda().restore(pid, gpuPairs && Buffer.from(gpuPairs, 'hex')),
  'cuda.unlock': ({ pid }) => openCuda().unlock(pid),
  'cuda.hold': ({ pid, held }) => openCuda().hold(pid, held),
}

/** Who has memory of others open, on each GPU that NVML has listed. @param {readonly number[]} pids */
function importedBytes(pids) {
  const manager = new ResourceManager(config.systemLibrary, config.devRoot)
  try {
    return listedNvml()
      .nodes()
      .flatMap((gpu) => [...manager.importedBytes(gpu, pids)].map(([pid, bytes]) => ({ busId: gpu.busId, pid, bytes })))
  } finally {
    manager.close()
  }
}

function watchEvents() {
  if (isWatching) return
  isWatching = true
  openNvml().list(config.busIds)
  void sendEvents(openNvml().eventSet(wantedEvents))
}

/** For as long as this process lives. @param {ReturnType<Nvml['eventSet']>} next */
async function sendEvents(next) {
  for (;;) {
    const { result, event } = await next(waitMs)
    if (event !== undefined) reply({ event })
    // With a lost GPU, waiting may fail at once, over and over.
    else if (result !== TIMEOUT) await new Promise((resolve) => setTimeout(resolve, waitMs))
  }
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

process.on('disconnect', () => void end())

async function end() {
  await cuda?.letAllGo()
  // An orderly exit would wait for the threads that wait for events. The kernel closes everything all the same.
  process.kill(process.pid, 'SIGKILL')
}
