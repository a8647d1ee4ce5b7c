// The one file of this package that loads native code, and plain JavaScript, because child processes and worker threads
// of Node 20 cannot load TypeScript. Importing it loads koffi and nothing of NVIDIA; the functions load that.
import { constants } from 'node:os'
import koffi from 'koffi'

/**
 * From nvml.h of CUDA 13. `void *` stands for everything that is a pointer or comes back through one. Functions that a
 * driver lacks are left out: older drivers have fewer.
 */
const nvmlPrototypes = {
  nvmlInit_v2: 'int nvmlInit_v2()',
  nvmlInitWithFlags: 'int nvmlInitWithFlags(unsigned int)',
  nvmlShutdown: 'int nvmlShutdown()',
  nvmlErrorString: 'const char *nvmlErrorString(int)',
  nvmlSystemGetDriverVersion: 'int nvmlSystemGetDriverVersion(void *, unsigned int)',
  nvmlDeviceGetCount_v2: 'int nvmlDeviceGetCount_v2(void *)',
  nvmlDeviceGetHandleByIndex_v2: 'int nvmlDeviceGetHandleByIndex_v2(unsigned int, void *)',
  nvmlDeviceGetHandleByPciBusId_v2: 'int nvmlDeviceGetHandleByPciBusId_v2(const char *, void *)',
  nvmlDeviceGetPciInfo_v3: 'int nvmlDeviceGetPciInfo_v3(void *, void *)',
  nvmlDeviceGetUUID: 'int nvmlDeviceGetUUID(void *, void *, unsigned int)',
  nvmlDeviceGetName: 'int nvmlDeviceGetName(void *, void *, unsigned int)',
  nvmlDeviceGetSerial: 'int nvmlDeviceGetSerial(void *, void *, unsigned int)',
  nvmlDeviceGetMinorNumber: 'int nvmlDeviceGetMinorNumber(void *, void *)',
  nvmlDeviceGetMemoryInfo: 'int nvmlDeviceGetMemoryInfo(void *, void *)',
  nvmlDeviceGetTemperature: 'int nvmlDeviceGetTemperature(void *, int, void *)',
  nvmlDeviceGetTemperatureThreshold: 'int nvmlDeviceGetTemperatureThreshold(void *, int, void *)',
  nvmlDeviceGetPowerUsage: 'int nvmlDeviceGetPowerUsage(void *, void *)',
  nvmlDeviceGetPcieReplayCounter: 'int nvmlDeviceGetPcieReplayCounter(void *, void *)',
  nvmlDeviceGetCurrPcieLinkGeneration: 'int nvmlDeviceGetCurrPcieLinkGeneration(void *, void *)',
  nvmlDeviceGetCurrPcieLinkWidth: 'int nvmlDeviceGetCurrPcieLinkWidth(void *, void *)',
  nvmlDeviceGetMaxPcieLinkGeneration: 'int nvmlDeviceGetMaxPcieLinkGeneration(void *, void *)',
  nvmlDeviceGetMaxPcieLinkWidth: 'int nvmlDeviceGetMaxPcieLinkWidth(void *, void *)',
  nvmlDeviceGetUtilizationRates: 'int nvmlDeviceGetUtilizationRates(void *, void *)',
  nvmlDeviceGetPcieThroughput: 'int nvmlDeviceGetPcieThroughput(void *, int, void *)',
  nvmlDeviceGetClockInfo: 'int nvmlDeviceGetClockInfo(void *, int, void *)',
  nvmlDeviceGetCurrentClocksThrottleReasons: 'int nvmlDeviceGetCurrentClocksThrottleReasons(void *, void *)',
  nvmlDeviceGetTotalEccErrors: 'int nvmlDeviceGetTotalEccErrors(void *, int, int, void *)',
  nvmlDeviceGetRetiredPages: 'int nvmlDeviceGetRetiredPages(void *, int, void *, void *)',
  nvmlDeviceGetRemappedRows: 'int nvmlDeviceGetRemappedRows(void *, void *, void *, void *, void *)',
  nvmlDeviceGetFieldValues: 'int nvmlDeviceGetFieldValues(void *, int, void *)',
  nvmlDeviceGetComputeRunningProcesses_v3: 'int nvmlDeviceGetComputeRunningProcesses_v3(void *, void *, void *)',
  nvmlDeviceGetGraphicsRunningProcesses_v3: 'int nvmlDeviceGetGraphicsRunningProcesses_v3(void *, void *, void *)',
  nvmlDeviceGetMPSComputeRunningProcesses_v3: 'int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *, void *, void *)',
  nvmlEventSetCreate: 'int nvmlEventSetCreate(void *)',
  nvmlDeviceGetSupportedEventTypes: 'int nvmlDeviceGetSupportedEventTypes(void *, void *)',
  nvmlDeviceRegisterEvents: 'int nvmlDeviceRegisterEvents(void *, uint64_t, void *)',
  nvmlEventSetWait_v2: 'int nvmlEventSetWait_v2(void *, void *, unsigned int)',
  nvmlEventSetFree: 'int nvmlEventSetFree(void *)',
}

/** From cuda.h of CUDA 13.0. The checkpoint functions exist since driver 570. */
const cudaPrototypes = {
  cuInit: 'int cuInit(unsigned int)',
  cuDriverGetVersion: 'int cuDriverGetVersion(void *)',
  cuCheckpointProcessGetState: 'int cuCheckpointProcessGetState(int, void *)',
  cuCheckpointProcessLock: 'int cuCheckpointProcessLock(int, void *)',
  cuCheckpointProcessCheckpoint: 'int cuCheckpointProcessCheckpoint(int, void *)',
  cuCheckpointProcessUnlock: 'int cuCheckpointProcessUnlock(int, void *)',
}

/** CUcheckpointRestoreArgs: 64 bytes, everything reserved is zero. */
const restoreArguments = koffi.struct({
  gpuPairs: 'void *',
  gpuPairsCount: 'uint32_t',
  reserved: koffi.array('uint8_t', 44),
  reserved1: 'uint64_t',
})

/** @param {string} path */
export function openNvml(path) {
  return bind(load(path), nvmlPrototypes)
}

/** @param {string} path */
export function openCuda(path) {
  const library = load(path)
  const functions = bind(library, cudaPrototypes)
  try {
    const type = ['int', koffi.pointer(restoreArguments)]
    functions.cuCheckpointProcessRestore = library.func('cuCheckpointProcessRestore', 'int', type)
  } catch {
    // An older driver; `functions` shows it.
  }
  return functions
}

/** koffi does not say which one is missing. @param {string} path */
function load(path) {
  try {
    return koffi.load(path)
  } catch (error) {
    throw new Error(`${path}: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
  }
}

/** What restore takes beside the process. @param {Uint8Array | undefined} gpuPairs 32 bytes each */
export function restoreArgumentsOf(gpuPairs) {
  const gpuPairsCount = (gpuPairs?.length ?? 0) / 32
  return { gpuPairs: gpuPairs ?? null, gpuPairsCount, reserved: new Uint8Array(44), reserved1: 0 }
}

/** @param {string} path libc, or what a test has in its place */
export function openSystem(path) {
  return load(path).func('int ioctl(int, unsigned long, void *)')
}

/**
 * Has the kernel end this process when the one that started it ends, in whatever way: in the middle of a call that hangs,
 * nothing else would, and the GPU would stay open. PR_SET_PDEATHSIG of prctl(2).
 * @param {string} path libc, or what a test has in its place
 * @param {number} starter the pid of the one that started it, which may have ended by now
 */
export function dieWithParent(path, starter) {
  const prctl = load(path).func('int prctl(int, unsigned long, unsigned long, unsigned long, unsigned long)')
  prctl(1, constants.signals.SIGKILL, 0, 0, 0)
  if (process.ppid !== starter) process.kill(process.pid, 'SIGKILL')
}

/** Where the bytes of a buffer are, for structures that point to others. @param {Buffer} buffer @returns {bigint} */
export function addressOf(buffer) {
  return koffi.address(buffer)
}

/** What threads read and write now, so that it is not collected meanwhile. @type {Set<unknown[]>} */
const inUse = new Set()

/**
 * Calls a function in a thread, so that this one may go on meanwhile. `undefined` when the driver lacks it.
 * @param {any} fn
 * @param {any[]} values
 * @returns {Promise<number | undefined>}
 */
export function inThread(fn, ...values) {
  if (fn === undefined) return Promise.resolve(undefined)
  inUse.add(values)
  return new Promise((resolve, reject) => {
    fn.async(...values, (/** @type {Error | null} */ error, /** @type {number} */ result) => {
      inUse.delete(values)
      if (error === null) resolve(result)
      else reject(error)
    })
  })
}

/**
 * @param {import('koffi').LibraryHandle} library
 * @param {Record<string, string>} prototypes
 */
function bind(library, prototypes) {
  /** @type {Record<string, ((...values: any[]) => any) | undefined>} */
  const functions = {}
  for (const [name, prototype] of Object.entries(prototypes)) {
    try {
      functions[name] = library.func(prototype)
    } catch {
      functions[name] = undefined
    }
  }
  return functions
}
