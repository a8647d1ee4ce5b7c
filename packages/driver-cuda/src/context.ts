import { systemClock } from '@egpu/core'
import type { Clock } from '@egpu/core'
import { Journal } from './checkpoint/journal.ts'
import { defaultStateDirectory } from './checkpoint/state-directory.ts'
import { awaitRoom } from './checkpoint/room.ts'
import type { StepsOptions } from './checkpoint/steps.ts'
import { Gpus } from './gpus.ts'
import { pooledHost } from './host/shared-host.ts'
import type { SharedHost } from './host/shared-host.ts'
import { librariesOf } from './libraries.ts'
import type { LibraryOptions } from './libraries.ts'

export interface CudaOptions extends LibraryOptions {
  readonly sysfsRoot?: string | undefined
  readonly procRoot?: string | undefined
  readonly cgroupRoot?: string | undefined
  /**
   * Where it is noted who is parked or being moved. By default `/run/egpu/cuda` for root, else a directory of the user
   * that is gone after a reboot.
   */
  readonly stateDirectory?: string | undefined
  /** How long a process may take to come to rest before it is left alone. 10,000 by default. */
  readonly lockTimeoutMs?: number | undefined
  /**
   * How long a step of the driver may take beside copying (at 50 MB/s or more) before it is left behind. 60,000 by
   * default. Initialising CUDA may take half a minute of it.
   */
  readonly stepTimeoutMs?: number | undefined
  /**
   * Refuse to park what does not fit into host memory now. On by default; turn it off in a virtual machine whose memory
   * grows as it is used.
   */
  readonly checkHostMemory?: boolean | undefined
  readonly clock?: Clock | undefined
}

/** Eight GPUs without persistence mode take ten seconds. */
const longestInitializeMs = 30_000

/** The outside world, as everything about CUDA processes uses it. */
export class CudaContext {
  readonly sysfsRoot: string
  readonly procRoot: string
  readonly devRoot: string
  readonly cgroupRoot: string
  readonly lockTimeoutMs: number
  readonly stepTimeoutMs: number
  /** For `cuInit`, which prepares every GPU of the machine. */
  readonly initializeTimeoutMs: number
  readonly checkHostMemory: boolean
  readonly clock: Clock
  readonly journal: Journal
  readonly gpus: Gpus
  /** Steps of the driver take seconds, so they have a process of their own beside NVML's. */
  readonly cuda: SharedHost
  readonly #nvml: SharedHost

  constructor(options: CudaOptions = {}) {
    this.sysfsRoot = options.sysfsRoot ?? '/sys'
    this.procRoot = options.procRoot ?? '/proc'
    this.cgroupRoot = options.cgroupRoot ?? '/sys/fs/cgroup'
    this.lockTimeoutMs = checkedTimeout('lockTimeoutMs', options.lockTimeoutMs ?? 10_000)
    this.stepTimeoutMs = checkedTimeout('stepTimeoutMs', options.stepTimeoutMs ?? 60_000)
    this.initializeTimeoutMs = Math.min(longestInitializeMs, this.stepTimeoutMs)
    this.checkHostMemory = options.checkHostMemory ?? true
    this.clock = options.clock ?? systemClock
    this.journal = new Journal(options.stateDirectory ?? defaultStateDirectory(), this.procRoot)
    const libraries = librariesOf(options)
    this.devRoot = libraries.devRoot
    this.cuda = pooledHost('cuda', libraries)
    this.#nvml = pooledHost('nvml', libraries)
    this.gpus = new Gpus(this.#nvml, { sysfsRoot: this.sysfsRoot, wakeSuspended: false })
  }

  /** For `Steps`, as everything here does them. */
  get stepsOptions(): StepsOptions {
    const { procRoot, clock, stepTimeoutMs, initializeTimeoutMs } = this
    // Without a signal: what takes back an abort may not be aborted.
    const room: StepsOptions['awaitRoom'] = (member, mapping) => awaitRoom(this, member, mapping)
    return { procRoot, clock, stepTimeoutMs, initializeTimeoutMs, awaitRoom: room }
  }

  /** Has NVML stay at hand until the returned function is called: starting it would take a tenth of a second. */
  keepNvml(): () => void {
    return this.#nvml.keep()
  }

  /** Ends what this process has running for its contexts, so that it holds no device node. */
  async release(): Promise<void> {
    await Promise.all([this.cuda.releaseWhenIdle(), this.#nvml.releaseWhenIdle()])
  }
}

/** The driver's own argument is 32 bits, and 0 would be for ever. */
function checkedTimeout(name: string, ms: number): number {
  if (Number.isSafeInteger(ms) && ms >= 1 && ms <= 0xffff_ffff) return ms
  throw new TypeError(`${name} must be a whole number from 1 up`)
}
