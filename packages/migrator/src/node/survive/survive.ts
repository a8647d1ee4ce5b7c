import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { isAbsolute } from 'node:path'
import { pathToFileURL } from 'node:url'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { Checkpointable, EGpuEvent } from '@egpu/core'
import type { EGpuDriver } from '@egpu/core/driver'
import { memoryStore } from '../../checkpoint/memory-store.ts'
import type { CheckpointStore } from '../../checkpoint/store.ts'
import type { MigrationConfig } from '../../config.ts'
import { deferred, quiet } from '../../run/deferred.ts'
import { received, receivedEvent } from './protocol.ts'
import type { FromChild, StoreAnswer } from './protocol.ts'
import { StoreServer } from './store-server.ts'

/** The default export of a module that `survive` runs. Called once in each child. */
export type Work = () => Promise<WorkSetup> | WorkSetup

export interface WorkSetup {
  readonly drivers: readonly EGpuDriver[]
  readonly workload: Checkpointable
  readonly config?: Omit<MigrationConfig, 'store' | 'keep'> | undefined
  /** What `finished` resolves with in the parent; anything that can be cloned. */
  readonly result?: (() => unknown) | undefined
}

export interface SurviveOptions {
  /** Where checkpoints are kept; in this process's memory by default. */
  readonly store?: CheckpointStore | undefined
  /** How long the child's event loop may stand still before it counts as hung in a driver. Default 10,000. */
  readonly hangMs?: number | undefined
  /** How often in a row it may die without any progress before the work is given up. Default 5. */
  readonly maxDeaths?: number | undefined
  /** Hears of losses, moves and checkpoints, with why they failed: that the store cannot be used, for one. */
  readonly onEvent?: ((event: EGpuEvent) => void) | undefined
  /** Hears of each death: `SIGKILL`, `SIGABRT`, an exit code, `hung`. */
  readonly onDeath?: ((cause: string) => void) | undefined
}

export interface Survival extends AsyncDisposable {
  /**
   * Resolves with the work's result. Rejects with `EGPU_WORKLOAD_FAILED` when the work itself failed, when the module cannot
   * be loaded or makes no work, and when the child died again and again without progress; with `EGPU_CLOSED` after `close`.
   */
  readonly finished: Promise<unknown>
  /** Pid of the child that works now. */
  readonly pid: number | undefined
  /** Kills the child. Twice is fine. */
  close(): Promise<void>
}

/** A pause before the next child, so that a machine in trouble is not kept busy with forking. */
const respawnMs = 100

/** Bundled, the child lies beside this file under a name of its own. */
const childUrl = new URL(import.meta.url.endsWith('.ts') ? './child.ts' : './survive-child.js', import.meta.url)

/**
 * Does GPU work in a process of its own and keeps its checkpoints in this one: an abort in a driver, or a call that hangs
 * in the kernel, costs that process and the work since the last checkpoint. `module` is the URL of a module whose
 * default export makes the drivers and the workload; an absolute path or the name of a package will do as well. Throws a
 * `TypeError` for anything else, a relative path above all, and for impossible options.
 */
export function survive(module: URL | string, options: SurviveOptions = {}): Survival {
  const path = addressOf(module)
  const { hangMs = 10_000, maxDeaths = 5 } = options
  if (!(hangMs > 0)) throw new TypeError(`hangMs must be more than 0, not ${hangMs}`)
  if (!Number.isSafeInteger(maxDeaths) || maxDeaths < 1)
    throw new TypeError(`maxDeaths must be from 1 up, not ${maxDeaths}`)
  const store = options.store ?? memoryStore()
  const end = deferred<unknown>()
  let child: ChildProcess | undefined
  let isOver = false
  let deaths = 0
  let bestProgress = -1

  const finish = (settle: () => void): void => {
    if (isOver) return
    isOver = true
    child?.kill('SIGKILL')
    settle()
  }

  const start = (): void => {
    const mine = fork(childUrl, [path, String(process.pid)], {
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    const server = new StoreServer(store)
    child = mine
    let isDead = false
    let heardAt = performance.now()
    const die = (cause: string): void => {
      if (isDead) return
      isDead = true
      clearInterval(watch)
      // A process in the kernel's hands may not even die of this; it is not waited for.
      mine.kill('SIGKILL')
      quiet(server.end())
      respawn(cause)
    }
    const watch = setInterval(() => {
      if (performance.now() - heardAt > hangMs) die('hung')
    }, hangMs / 4)
    mine.on('message', (message: FromChild) => {
      if (isDead || isOver) return
      heardAt = performance.now()
      if (message.type === 'call') {
        void server.answer(message).then((answer) => {
          if (message.method === 'commit' && 'value' in answer)
            progressed((answer.value as { progress: number }).progress)
          tell(mine, answer)
        })
      }
      if (message.type === 'event') options.onEvent?.(receivedEvent(message.event))
      if (message.type === 'unready') unready(received(message.error), die)
      if (message.type === 'failed') finish(() => end.reject(asFailure(received(message.error), path)))
      if (message.type === 'finished') finish(() => end.resolve(message.result))
    })
    mine.on('error', (error) => die(error.message))
    mine.on('exit', (code, signal) => die(signal ?? `exit code ${code}`))
  }

  /** Progress that is committed: to have died after it was not in vain. */
  const progressed = (progress: number): void => {
    if (progress <= bestProgress) return
    bestProgress = progress
    deaths = 0
  }

  /** At the first start it will be so each time; later, a device may be missing for a moment. */
  const unready = (cause: Error, die: (cause: string) => void): void => {
    if (deaths > 0 || bestProgress >= 0) {
      die(`a start that failed: ${cause.message}`)
      return
    }
    const text = `the work in ${path} cannot be started: ${cause.message}`
    finish(() => end.reject(new EGpuError(EGpuErrorCode.WorkloadFailed, text, { cause })))
  }

  const respawn = (cause: string): void => {
    if (isOver) return
    options.onDeath?.(cause)
    deaths += 1
    if (deaths >= maxDeaths) {
      const message = `the process that does the work died ${deaths} times without getting further, last of ${cause}; its checkpoints are kept`
      finish(() => end.reject(new EGpuError(EGpuErrorCode.WorkloadFailed, message)))
      return
    }
    setTimeout(() => {
      if (!isOver) start()
    }, respawnMs)
  }

  const close = async (): Promise<void> => {
    quiet(end.promise)
    finish(() => end.reject(new EGpuError(EGpuErrorCode.Closed, 'the run was closed')))
    if (options.store === undefined) await store.close()
  }

  start()
  return {
    finished: end.promise,
    get pid() {
      return child?.pid
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** A path that begins with a dot would be relative to this file. */
function addressOf(module: URL | string): string {
  if (module instanceof URL) return module.href
  if (typeof module !== 'string' || module === '' || module.startsWith('.') || module.includes('\0')) {
    throw new TypeError("survive needs the URL of a module, as in new URL('./work.js', import.meta.url)")
  }
  return isAbsolute(module) ? pathToFileURL(module).href : module
}

function asFailure(error: Error, path: string): EGpuError {
  if (EGpuError.is(error)) return error
  const message = `the work in ${path} failed: ${error.message}`
  return new EGpuError(EGpuErrorCode.WorkloadFailed, message, { cause: error })
}

function tell(child: ChildProcess, message: StoreAnswer): void {
  // A child that has just died is heard of by its `exit`.
  if (child.connected) child.send(message, () => undefined)
}
