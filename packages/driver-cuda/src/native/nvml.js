// What is read from NVML, as plain objects. Runs in the child process of host.js.
import { inThread, openNvml } from './libraries.js'

/** nvmlReturn_t */
const OK = 0
const NOT_SUPPORTED = 3
const INSUFFICIENT_SIZE = 7
const FUNCTION_NOT_FOUND = 13
const GPU_IS_LOST = 15

const NVML_INIT_FLAG_NO_GPUS = 1
const NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230
/** Of a process that runs on the whole GPU and not on a MIG instance. */
const noInstance = 0xffffffff

/** What NVML answered instead of `OK`. */
export class NvmlError extends Error {
  /** @param {string} call @param {number} result @param {string} text */
  constructor(call, result, text) {
    super(`${call} answered ${result} (${text})`)
    this.result = result
  }
}

/** One initialisation of NVML, which keeps the list of GPUs it found then. */
export class Nvml {
  #fn
  /** @type {Map<string, bigint>} */
  #handles = new Map()
  /** @type {Map<bigint, Record<'slowdownTemperature' | 'pcieMaxGeneration' | 'pcieMaxLanes', number | undefined>>} */
  #nameplates = new Map()

  /** Initialises no GPU yet: NVML does that when a handle is taken. @param {string} library */
  constructor(library) {
    this.#fn = openNvml(library)
    if (this.#fn.nvmlInitWithFlags === undefined) this.#must('nvmlInit_v2')
    else this.#must('nvmlInitWithFlags', NVML_INIT_FLAG_NO_GPUS)
  }

  close() {
    this.#fn.nvmlShutdown?.()
  }

  /** @returns {string | undefined} */
  driverVersion() {
    return this.#text('nvmlSystemGetDriverVersion')
  }

  /**
   * The GPUs at these addresses, or all. One that cannot be reached is there with its `result`. Taking a handle wakes a
   * GPU, and by address NVML wakes only that one.
   * @param {readonly string[] | undefined} busIds
   */
  list(busIds) {
    /** @type {{ handle: bigint, result: number }[]} */
    const found = []
    if (busIds === undefined) {
      const count = new Uint32Array(1)
      this.#must('nvmlDeviceGetCount_v2', count)
      for (let index = 0; index < (count[0] ?? 0); index += 1)
        found.push(this.#handle('nvmlDeviceGetHandleByIndex_v2', index))
    } else {
      for (const busId of busIds) found.push(this.#handle('nvmlDeviceGetHandleByPciBusId_v2', busId))
    }
    return found.map(({ handle, result }, index) =>
      result === OK ? this.#describe(handle) : { result, busId: busIds?.[index] },
    )
  }

  /** @param {bigint} handle */
  #describe(handle) {
    const pci = Buffer.alloc(68)
    const result = this.#call('nvmlDeviceGetPciInfo_v3', handle, pci)
    if (result !== OK) return { result }
    const busId = textOf(pci.subarray(36))
    this.#handles.set(busId, handle)
    return {
      result,
      busId,
      pciDeviceId: pci.readUInt32LE(28),
      pciSubsystemId: pci.readUInt32LE(32),
      uuid: this.#text('nvmlDeviceGetUUID', handle),
      name: this.#text('nvmlDeviceGetName', handle),
      serial: this.#text('nvmlDeviceGetSerial', handle),
      memoryTotal: this.#memory(handle)?.total,
      minor: this.#number('nvmlDeviceGetMinorNumber', handle),
    }
  }

  /** What never changes while a GPU is there. @param {bigint} handle */
  #nameplate(handle) {
    let nameplate = this.#nameplates.get(handle)
    if (nameplate === undefined) {
      nameplate = {
        slowdownTemperature: this.#number('nvmlDeviceGetTemperatureThreshold', handle, 1),
        pcieMaxGeneration: this.#number('nvmlDeviceGetMaxPcieLinkGeneration', handle),
        pcieMaxLanes: this.#number('nvmlDeviceGetMaxPcieLinkWidth', handle),
      }
      this.#nameplates.set(handle, nameplate)
    }
    return nameplate
  }

  /**
   * What a health sample needs. The link's state takes the GPU's own processor four times as long as all the rest (0.8
   * against 0.2 ms on an H200), so it is read only when it is asked for.
   * @param {string} busId @param {boolean} withLink
   */
  health(busId, withLink) {
    const handle = this.handleOf(busId)
    const temperature = this.#number('nvmlDeviceGetTemperature', handle, 0)
    const memory = this.#memory(handle)
    return {
      temperature,
      powerMilliwatts: this.#number('nvmlDeviceGetPowerUsage', handle),
      memoryUsed: memory?.used,
      memoryTotal: memory?.total,
      ...this.#nameplate(handle),
      ...(withLink ? this.#link(handle) : {}),
    }
  }

  /** @param {bigint} handle */
  #link(handle) {
    return {
      pcieReplays: this.#number('nvmlDeviceGetPcieReplayCounter', handle),
      pcieGeneration: this.#number('nvmlDeviceGetCurrPcieLinkGeneration', handle),
      pcieLanes: this.#number('nvmlDeviceGetCurrPcieLinkWidth', handle),
      utilization: this.#utilization(handle),
    }
  }

  /**
   * Everything else; NVML measures the PCIe throughput over 20 ms for each direction.
   * @param {string} busId
   */
  details(busId) {
    const handle = this.handleOf(busId)
    return {
      ...this.health(busId, true),
      pcieReceivedKBps: this.#number('nvmlDeviceGetPcieThroughput', handle, 1),
      pcieSentKBps: this.#number('nvmlDeviceGetPcieThroughput', handle, 0),
      graphicsMHz: this.#number('nvmlDeviceGetClockInfo', handle, 0),
      smMHz: this.#number('nvmlDeviceGetClockInfo', handle, 1),
      memoryMHz: this.#number('nvmlDeviceGetClockInfo', handle, 2),
      throttleReasons: this.#big('nvmlDeviceGetCurrentClocksThrottleReasons', handle),
      eccCorrected: this.#big('nvmlDeviceGetTotalEccErrors', handle, 0, 1),
      eccUncorrected: this.#big('nvmlDeviceGetTotalEccErrors', handle, 1, 1),
      retiredPages: this.#retiredPages(handle),
      remappedRows: this.#remappedRows(handle),
      recoveryAction: this.#recoveryAction(handle),
    }
  }

  /** The GPUs that `list` has seen and their device nodes. */
  nodes() {
    return this.#reachable().flatMap(([busId, handle]) => {
      const minor = this.#number('nvmlDeviceGetMinorNumber', handle)
      return minor === undefined ? [] : [{ busId, minor }]
    })
  }

  /** Everybody on the GPUs that `list` has seen. */
  processes() {
    const kinds = /** @type {const} */ ([
      ['compute', 'nvmlDeviceGetComputeRunningProcesses_v3'],
      ['graphics', 'nvmlDeviceGetGraphicsRunningProcesses_v3'],
      ['mps', 'nvmlDeviceGetMPSComputeRunningProcesses_v3'],
    ])
    return this.#reachable().flatMap(([busId, handle]) =>
      kinds.flatMap(([kind, call]) =>
        this.#runningProcesses(call, handle).map((process) => ({ busId, kind, ...process })),
      ),
    )
  }

  /** GPUs that `list` has seen and that are still there: a dead one says nothing about the others. */
  #reachable() {
    return [...this.#handles].filter(
      ([, handle]) => this.#call('nvmlDeviceGetMinorNumber', handle, new Uint32Array(1)) !== GPU_IS_LOST,
    )
  }

  /** @param {string} call @param {bigint} handle */
  #runningProcesses(call, handle) {
    for (let room = 32; room <= 8_192; room *= 4) {
      const count = new Uint32Array([room])
      const infos = Buffer.alloc(room * 24)
      const result = this.#call(call, handle, count, infos)
      if (result === INSUFFICIENT_SIZE) continue
      if (result !== OK) return []
      return Array.from({ length: count[0] ?? 0 }, (_, index) => {
        const at = index * 24
        const bytes = infos.readBigUInt64LE(at + 8)
        const instance = infos.readUInt32LE(at + 16)
        return {
          pid: infos.readUInt32LE(at),
          // NVML_VALUE_NOT_AVAILABLE is all ones.
          bytes: bytes === 0xffff_ffff_ffff_ffffn ? undefined : Number(bytes),
          gpuInstance: instance === noInstance ? undefined : instance,
        }
      })
    }
    return []
  }

  /**
   * A set that hears of these events on every GPU that `list` has seen.
   * @param {bigint} types
   */
  eventSet(types) {
    const out = new BigUint64Array(1)
    this.#must('nvmlEventSetCreate', out)
    const set = out[0] ?? 0n
    const busIds = new Map([...this.#handles].map(([busId, handle]) => [handle, busId]))
    for (const handle of busIds.keys()) {
      const supported = new BigUint64Array(1)
      if (this.#call('nvmlDeviceGetSupportedEventTypes', handle, supported) !== OK) continue
      const wanted = types & (supported[0] ?? 0n)
      if (wanted !== 0n) this.#call('nvmlDeviceRegisterEvents', handle, wanted, set)
    }
    const data = Buffer.alloc(32)
    /**
     * The next event, or why there is none. Waits in a thread of its own.
     * @param {number} timeoutMs
     */
    return async (timeoutMs) => {
      const result = await inThread(this.#fn.nvmlEventSetWait_v2, set, data, timeoutMs)
      const busId = result === OK ? busIds.get(data.readBigUInt64LE(0)) : undefined
      if (busId === undefined) return { result: result ?? FUNCTION_NOT_FOUND, event: undefined }
      const [type, value] = [data.readBigUInt64LE(8), data.readBigUInt64LE(16)]
      return { result, event: { busId, type: Number(type), data: Number(value) } }
    }
  }

  /** Whether `list` has been asked. */
  get isListed() {
    return this.#handles.size > 0
  }

  /** @param {string} busId */
  handleOf(busId) {
    const known = this.#handles.get(busId)
    if (known !== undefined) return known
    const { handle, result } = this.#handle('nvmlDeviceGetHandleByPciBusId_v2', busId)
    if (result !== OK) throw this.#error('nvmlDeviceGetHandleByPciBusId_v2', result)
    this.#handles.set(busId, handle)
    return handle
  }

  /** @param {string} call @param {number | string} name */
  #handle(call, name) {
    const out = new BigUint64Array(1)
    const result = this.#call(call, name, out)
    return { handle: out[0] ?? 0n, result }
  }

  /** @param {bigint} handle */
  #memory(handle) {
    const memory = new BigUint64Array(3)
    const result = this.#call('nvmlDeviceGetMemoryInfo', handle, memory)
    this.#stopIfLost('nvmlDeviceGetMemoryInfo', result)
    return result === OK ? { total: Number(memory[0]), used: Number(memory[2]) } : undefined
  }

  /** @param {bigint} handle */
  #utilization(handle) {
    const rates = new Uint32Array(2)
    return this.#call('nvmlDeviceGetUtilizationRates', handle, rates) === OK ? rates[0] : undefined
  }

  /** Pages retired for single-bit and for double-bit errors. @param {bigint} handle */
  #retiredPages(handle) {
    let total = 0
    for (const cause of [0, 1]) {
      const count = new Uint32Array(1)
      const result = this.#call('nvmlDeviceGetRetiredPages', handle, cause, count, null)
      if (result !== OK && result !== INSUFFICIENT_SIZE) return undefined
      total += count[0] ?? 0
    }
    return total
  }

  /** @param {bigint} handle */
  #remappedRows(handle) {
    const [corrected, uncorrected, pending, failed] = [0, 0, 0, 0].map(() => new Uint32Array(1))
    const result = this.#call('nvmlDeviceGetRemappedRows', handle, corrected, uncorrected, pending, failed)
    if (result !== OK) return undefined
    return {
      corrected: corrected?.[0],
      uncorrected: uncorrected?.[0],
      pending: pending?.[0] === 1,
      failed: failed?.[0] === 1,
    }
  }

  /** @param {bigint} handle */
  #recoveryAction(handle) {
    const field = Buffer.alloc(40)
    field.writeUInt32LE(NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, 0)
    if (this.#call('nvmlDeviceGetFieldValues', handle, 1, field) !== OK || field.readInt32LE(28) !== OK)
      return undefined
    return field.readUInt32LE(32)
  }

  /** @param {string} call @param {any[]} values */
  #text(call, ...values) {
    const buffer = Buffer.alloc(96)
    const result = this.#call(call, ...values, buffer, buffer.length)
    const text = result === OK ? textOf(buffer).trim() : ''
    return text === '' ? undefined : text
  }

  /** @param {string} call @param {any[]} values */
  #number(call, ...values) {
    const out = new Uint32Array(1)
    const result = this.#call(call, ...values, out)
    this.#stopIfLost(call, result)
    return result === OK ? out[0] : undefined
  }

  /** @param {string} call @param {any[]} values */
  #big(call, ...values) {
    const out = new BigUint64Array(1)
    return this.#call(call, ...values, out) === OK ? Number(out[0]) : undefined
  }

  /** @param {string} call @param {any[]} values @returns {number} */
  #call(call, ...values) {
    const fn = this.#fn[call]
    return fn === undefined ? FUNCTION_NOT_FOUND : fn(...values)
  }

  /** @param {string} call @param {any[]} values */
  #must(call, ...values) {
    const result = this.#call(call, ...values)
    if (result !== OK) throw this.#error(call, result)
  }

  /** A sensor that is not there is no failure; a GPU that is not there is. @param {string} call @param {number} result */
  #stopIfLost(call, result) {
    if (result === GPU_IS_LOST) throw this.#error(call, result)
  }

  /** @param {string} call @param {number} result */
  #error(call, result) {
    if (result === FUNCTION_NOT_FOUND || result === NOT_SUPPORTED)
      return new NvmlError(call, result, 'not supported by this driver')
    return new NvmlError(call, result, String(this.#fn.nvmlErrorString?.(result)))
  }
}

/** @param {Buffer} bytes */
function textOf(bytes) {
  const end = bytes.indexOf(0)
  return bytes.subarray(0, end === -1 ? bytes.length : end).toString('latin1')
}
