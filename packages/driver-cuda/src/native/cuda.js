// The four calls of the CUDA driver that move a process, and the one that tells its state. Each runs in a thread: they
// take seconds, and other processes are waiting for theirs.
import { inThread, openCuda, restoreArgumentsOf } from './libraries.js'

/** CUresult and CUprocessState, as far as this file decides by them. */
const SUCCESS = 0
const state = { locked: 1, checkpointed: 2 }

export class Cuda {
  #fn
  /** @type {Promise<number> | undefined} */
  #initialized
  /** Processes that must not stay locked when whoever asked for it dies. @type {Set<number>} */
  #held = new Set()
  /** The call that is under way with each process. @type {Map<number, Promise<unknown>>} */
  #running = new Map()

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

  /** Needed once before every call below. */
  async initialize() {
    this.#initialized ??= inThread(this.#fn.cuInit, 0).then((result) => result ?? -1)
    const result = await this.#initialized
    // Another try may find a GPU.
    if (result !== SUCCESS) this.#initialized = undefined
    return result
  }

  /** @param {number} pid */
  async state(pid) {
    const out = new Int32Array([-1])
    const result = (await inThread(this.#fn.cuCheckpointProcessGetState, pid, out)) ?? -1
    return { result, state: out[0] }
  }

  /** @param {readonly number[]} pids */
  async states(pids) {
    const answers = []
    for (const pid of pids) answers.push({ pid, ...(await this.state(pid)) })
    return answers
  }

  /** @param {number} pid @param {number} timeoutMs */
  lock(pid, timeoutMs) {
    const values = new Uint32Array(16)
    values[0] = timeoutMs
    return this.#step(this.#fn.cuCheckpointProcessLock, pid, values)
  }

  /** @param {number} pid */
  checkpoint(pid) {
    return this.#step(this.#fn.cuCheckpointProcessCheckpoint, pid, new Uint8Array(64))
  }

  /** @param {number} pid @param {Uint8Array | undefined} gpuPairs 32 bytes each: old and new UUID */
  restore(pid, gpuPairs) {
    return this.#step(this.#fn.cuCheckpointProcessRestore, pid, restoreArgumentsOf(gpuPairs))
  }

  /** @param {number} pid */
  unlock(pid) {
    return this.#step(this.#fn.cuCheckpointProcessUnlock, pid, new Uint8Array(64))
  }

  /** @param {number} pid @param {boolean} held */
  hold(pid, held) {
    if (held) this.#held.add(pid)
    else this.#held.delete(pid)
  }

  /** Our parent died in the middle: everybody it held goes on working where it was. */
  async letAllGo() {
    // One that hangs keeps none of the others.
    await Promise.allSettled([...this.#held].map((pid) => this.#letGo(pid)))
  }

  /** @param {number} pid */
  async #letGo(pid) {
    await this.#running.get(pid)?.catch(() => undefined)
    if ((await this.state(pid)).state === state.checkpointed) await this.restore(pid, undefined)
    if ((await this.state(pid)).state === state.locked) await this.unlock(pid)
  }

  /** @param {((...values: any[]) => any) | undefined} fn @param {number} pid @param {any[]} values */
  async #step(fn, pid, ...values) {
    const from = performance.now()
    const call = inThread(fn, pid, ...values)
    this.#running.set(pid, call)
    try {
      return { result: (await call) ?? -1, ms: performance.now() - from }
    } finally {
      if (this.#running.get(pid) === call) this.#running.delete(pid)
    }
  }
}
