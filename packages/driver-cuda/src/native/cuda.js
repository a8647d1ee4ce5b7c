// The four calls of the CUDA driver that move a process, and the one that tells its state. Runs in the child process of
// host.js, where a call that never comes back can be left behind.
import { openCuda } from './libraries.js'

/** CUresult and CUprocessState, as far as this file decides by them. */
const SUCCESS = 0
const state = { running: 0, locked: 1, checkpointed: 2 }

export class Cuda {
  #fn
  #initialized = false
  /** Processes that must not stay locked when whoever asked for it dies. @type {Set<number>} */
  #held = new Set()

  /** @param {string} library */
  constructor(library) {
    this.#fn = openCuda(library)
  }

  /** 13000 for CUDA 13.0. Needs no GPU and wakes none. */
  version() {
    const out = new Int32Array(1)
    return this.#fn.cuDriverGetVersion?.(out) === SUCCESS ? out[0] : undefined
  }

  /** Whether the driver can checkpoint processes at all: since 570. */
  get canCheckpoint() {
    return this.#fn.cuCheckpointProcessLock !== undefined && this.#fn.cuCheckpointProcessRestore !== undefined
  }

  /** Needed once before every call below. @returns {number} */
  initialize() {
    if (this.#initialized) return SUCCESS
    const result = this.#fn.cuInit?.(0) ?? -1
    this.#initialized = result === SUCCESS
    return result
  }

  /** @param {number} pid */
  state(pid) {
    const out = new Int32Array([-1])
    const result = this.#fn.cuCheckpointProcessGetState?.(pid, out) ?? -1
    return { result, state: out[0] }
  }

  /** @param {number} pid @param {number} timeoutMs */
  lock(pid, timeoutMs) {
    const values = new Uint32Array(16)
    values[0] = timeoutMs
    return timed(() => this.#fn.cuCheckpointProcessLock?.(pid, values))
  }

  /** @param {number} pid */
  checkpoint(pid) {
    return timed(() => this.#fn.cuCheckpointProcessCheckpoint?.(pid, new Uint8Array(64)))
  }

  /** @param {number} pid @param {Uint8Array | undefined} gpuPairs 32 bytes each: old and new UUID */
  restore(pid, gpuPairs) {
    return timed(() => this.#fn.cuCheckpointProcessRestore?.(pid, gpuPairs))
  }

  /** @param {number} pid */
  unlock(pid) {
    return timed(() => this.#fn.cuCheckpointProcessUnlock?.(pid, new Uint8Array(64)))
  }

  /** @param {number} pid @param {boolean} held */
  hold(pid, held) {
    if (held) this.#held.add(pid)
    else this.#held.delete(pid)
  }

  /** Our parent died in the middle: everybody it held goes on working where it was. */
  letAllGo() {
    for (const pid of this.#held) {
      if (this.state(pid).state === state.checkpointed) this.restore(pid, undefined)
      if (this.state(pid).state === state.locked) this.unlock(pid)
    }
  }
}

/** @param {() => number | undefined} call */
function timed(call) {
  const from = performance.now()
  const result = call() ?? -1
  return { result, ms: performance.now() - from }
}
