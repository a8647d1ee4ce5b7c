// What only NVIDIA's kernel driver knows: how much GPU memory of other processes a process has open (CUDA IPC, shared
// handles). NVML adds it to the rest and CUDA tells nobody, so the kernel driver is asked the way NVML asks it. The
// layouts are those of nv-ioctl.h, nvos.h, cl0080.h and ctrl2080gpu.h in NVIDIA/open-gpu-kernel-modules, the same from
// driver 525 to 610. A driver with others answers an error, which here means that nothing is known.
import { closeSync, openSync } from 'node:fs'
import { addressOf, openSystem } from './libraries.js'

/** nv-ioctl-numbers.h; the type is `F` and all are read and written. */
const escape = { control: 0x2a, allocate: 0x2b, registerFile: 201 }
const classes = { client: 0x41, device: 0x80, subdevice: 0x2080 }
/** NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, _ID_INFO_V2, _PCI_INFO and NV2080_CTRL_CMD_GPU_GET_PID_INFO. */
const command = { attachedIds: 0x201, idInfo: 0x205, pciInfo: 0x21b, pidInfo: 0x2080018e }

const noGpu = 0xffffffff
/** NV2080_CTRL_GPU_GET_PID_INFO_MAX_COUNT, and the size of one entry. */
const entries = 200
const entryBytes = 72

/** One client of the kernel driver. Needs no privileges, and holds device nodes only until it is closed. */
export class ResourceManager {
  #ioctl
  #control
  #devRoot
  /** @type {number[]} */
  #files = []
  #client = 0

  /** @param {string} library libc @param {string} devRoot */
  constructor(library, devRoot) {
    this.#ioctl = openSystem(library)
    this.#devRoot = devRoot
    this.#control = openSync(`${devRoot}/nvidiactl`, 'r+')
    this.#files.push(this.#control)
    this.#client = this.#allocate(0, classes.client)
  }

  /**
   * How many bytes of others each process has open on one GPU.
   * @param {{ busId: string, minor: number }} gpu
   * @param {readonly number[]} pids
   * @returns {ReadonlyMap<number, number>}
   */
  importedBytes({ busId, minor }, pids) {
    const subdevice = this.#openGpu(busId, minor)
    /** @type {Map<number, number>} */
    const imported = new Map()
    for (let from = 0; from < pids.length; from += entries) {
      const some = pids.slice(from, from + entries)
      const list = Buffer.alloc(8 + entries * entryBytes)
      list.writeUInt32LE(some.length, 0)
      for (const [index, pid] of some.entries()) list.writeUInt32LE(pid, 8 + index * entryBytes)
      this.#ask(subdevice, command.pidInfo, list)
      for (const [index, pid] of some.entries()) {
        const at = 8 + index * entryBytes
        // Its own (private, shared by it) comes first, then what it has of others.
        if (list.readUInt32LE(at + 8) === 0) imported.set(pid, Number(list.readBigUInt64LE(at + 32)))
      }
    }
    return imported
  }

  close() {
    for (const file of this.#files.splice(0)) closeSync(file)
  }

  /** @param {string} busId @param {number} minor */
  #openGpu(busId, minor) {
    const instance = this.#instanceOf(busId)
    const file = openSync(`${this.#devRoot}/nvidia${minor}`, 'r+')
    this.#files.push(file)
    const owner = Buffer.alloc(4)
    owner.writeInt32LE(this.#control)
    this.#call(file, escape.registerFile, owner)
    const device = Buffer.alloc(56)
    device.writeUInt32LE(instance, 0)
    return this.#allocate(this.#allocate(this.#client, classes.device, device), classes.subdevice, Buffer.alloc(4))
  }

  /** The kernel driver's own number of the GPU at this address. @param {string} busId */
  #instanceOf(busId) {
    const ids = Buffer.alloc(128)
    this.#ask(this.#client, command.attachedIds, ids)
    for (let at = 0; at < ids.length; at += 4) {
      const id = ids.readUInt32LE(at)
      if (id === noGpu) continue
      const pci = Buffer.alloc(12)
      pci.writeUInt32LE(id, 0)
      this.#ask(this.#client, command.pciInfo, pci)
      const [domain, bus, slot] = [pci.readUInt32LE(4), pci.readUInt16LE(8), pci.readUInt16LE(10)]
      if (busId.toLowerCase() !== `${hex(domain, 8)}:${hex(bus, 2)}:${hex(slot, 2)}.0`) continue
      const info = Buffer.alloc(32)
      info.writeUInt32LE(id, 0)
      this.#ask(this.#client, command.idInfo, info)
      return info.readUInt32LE(8)
    }
    throw new Error(`the kernel driver has no GPU at ${busId}`)
  }

  /** @param {number} parent @param {number} wanted @param {Buffer} [parameters] */
  #allocate(parent, wanted, parameters) {
    const request = Buffer.alloc(32)
    for (const [index, value] of [this.#client, parent, 0, wanted].entries()) request.writeUInt32LE(value, index * 4)
    request.writeBigUInt64LE(parameters === undefined ? 0n : addressOf(parameters), 16)
    request.writeUInt32LE(parameters?.length ?? 0, 24)
    this.#call(this.#control, escape.allocate, request)
    return request.readUInt32LE(8)
  }

  /** @param {number} object @param {number} what @param {Buffer} parameters */
  #ask(object, what, parameters) {
    const request = Buffer.alloc(32)
    for (const [index, value] of [this.#client, object, what, 0].entries()) request.writeUInt32LE(value, index * 4)
    request.writeBigUInt64LE(addressOf(parameters), 16)
    request.writeUInt32LE(parameters.length, 24)
    this.#call(this.#control, escape.control, request)
  }

  /** @param {number} file @param {number} number @param {Buffer} request */
  #call(file, number, request) {
    const code = 0xc000_0000 + request.length * 0x1_0000 + 0x4600 + number
    const result = this.#ioctl(file, code, request)
    const status = request.length === 32 ? request.readUInt32LE(28) : 0
    if (result < 0 || status !== 0) throw new Error(`NVIDIA's kernel driver answered ${result}, status ${status}`)
  }
}

/** @param {number} value @param {number} digits */
const hex = (value, digits) => value.toString(16).padStart(digits, '0')
