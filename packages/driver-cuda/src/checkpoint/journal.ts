import {
  closeSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { bootId, readProcess } from '../processes/proc.ts'

interface ProcessId {
  readonly pid: number
  readonly startTime: string
}

/** What a later process has to know of one CUDA process that is, or was being, moved or parked. */
export interface JournalEntry extends ProcessId {
  readonly version: 1
  readonly bootId: string
  /** Where it is meant to end: `parked` once a park is complete, `running` while anything is under way. */
  readonly goal: 'running' | 'parked'
  /** Who is at it; absent when it is parked and nobody is. */
  readonly owner?: ProcessId | undefined
  /** Pids of all that go together. */
  readonly group: readonly number[]
  readonly name: string
  /** What it held on each GPU. */
  readonly gpus: readonly { readonly uuid: string; readonly bytes: number }[]
}

/** For the process's user alone, and gone after a reboot, as the processes are. */
export function defaultStateDirectory(): string {
  const uid = process.getuid?.()
  const runtime = process.env['XDG_RUNTIME_DIR']
  if (uid === 0) return '/run/egpu/cuda'
  return runtime === undefined ? join(tmpdir(), `egpu-cuda-${uid}`) : join(runtime, 'egpu', 'cuda')
}

/**
 * One file for each CUDA process that is not simply running. It is written before the first step and taken away after
 * the last, so that whatever dies in between leaves a note for `recoverCudaProcesses()`. What was really reached is
 * asked of the driver, never read from here.
 */
export class Journal {
  readonly #directory: string
  readonly #procRoot: string
  readonly #self: ProcessId
  readonly #bootId: string

  constructor(directory: string, procRoot: string) {
    this.#directory = directory
    this.#procRoot = procRoot
    this.#bootId = bootId(procRoot)
    this.#self = { pid: process.pid, startTime: readProcess('/proc', process.pid)?.startTime ?? '' }
  }

  /** Everything noted in this boot, oldest names first. */
  entries(): readonly JournalEntry[] {
    let names: string[]
    try {
      names = readdirSync(this.#directory)
    } catch {
      return []
    }
    return names
      .filter((name) => /^\d+-\d+\.json(\.\d+)?$/.test(name))
      .sort()
      .map((name) => this.#read(join(this.#directory, name)))
      .filter((entry) => entry !== undefined)
  }

  find({ pid, startTime }: ProcessId): JournalEntry | undefined {
    return this.#read(this.#path({ pid, startTime }))
  }

  /** Whether somebody is at it who is alive. */
  isOwned({ owner }: JournalEntry): boolean {
    return owner !== undefined && readProcess(this.#procRoot, owner.pid)?.startTime === owner.startTime
  }

  /**
   * Notes that we begin with this process. What a dead owner left, and what is parked, is taken over. Throws
   * `EGPU_DEVICE_BUSY` when a living process is at it.
   */
  claim(about: Omit<JournalEntry, 'version' | 'bootId' | 'owner' | 'goal'>): void {
    this.#prepare()
    const path = this.#path(about)
    const content = this.#entry({ ...about, goal: 'running', owner: this.#self })
    if (this.#create(path, content)) return
    const other = this.#read(path)
    if (other !== undefined && this.isOwned(other)) throw busy(other)
    // Only one of several that want it gets the file by its name.
    const taken = `${path}.${this.#self.pid}`
    try {
      renameSync(path, taken)
    } catch {
      throw busy(other ?? about)
    }
    if (!this.#create(path, content)) throw busy(about)
    unlinkSync(taken)
  }

  /** It is parked now and stays so without us. */
  parked(id: ProcessId): void {
    const entry = this.find(id)
    if (entry !== undefined) this.#replace(id, this.#entry({ ...entry, goal: 'parked', owner: undefined }))
  }

  /** We could not finish and are no longer at it; whoever recovers may be. */
  disown(id: ProcessId): void {
    const entry = this.find(id)
    if (entry !== undefined) this.#replace(id, this.#entry({ ...entry, owner: undefined }))
  }

  /** It runs, or has ended: there is nothing to remember. */
  forget(id: ProcessId): void {
    const path = this.#path(id)
    for (const name of readdirSync(this.#directory)) {
      const file = join(this.#directory, name)
      if (file === path || file.startsWith(`${path}.`)) unlinkSync(file)
    }
    this.#syncDirectory()
  }

  #entry(entry: Omit<JournalEntry, 'version' | 'bootId'>): string {
    return `${JSON.stringify({ ...entry, version: 1, bootId: this.#bootId })}\n`
  }

  /** Makes the file with all of its content or not at all; false when there is one. */
  #create(path: string, content: string): boolean {
    const scratch = this.#write(content)
    try {
      linkSync(scratch, path)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
      throw error
    } finally {
      unlinkSync(scratch)
    }
    this.#syncDirectory()
    return true
  }

  #replace(id: ProcessId, content: string): void {
    renameSync(this.#write(content), this.#path(id))
    this.#syncDirectory()
  }

  #write(content: string): string {
    const scratch = join(this.#directory, `.${this.#self.pid}-${nextScratch++}`)
    const file = openSync(scratch, 'w', 0o600)
    try {
      writeSync(file, content)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    return scratch
  }

  #syncDirectory(): void {
    const directory = openSync(this.#directory, 'r')
    try {
      fsyncSync(directory)
    } finally {
      closeSync(directory)
    }
  }

  /** Others must not be able to make us act on what they wrote. */
  #prepare(): void {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
    const { uid, mode } = lstatSync(this.#directory)
    if (uid === process.getuid?.() && (mode & 0o022) === 0) return
    throw new EGpuError(
      EGpuErrorCode.PermissionDenied,
      `${this.#directory} has to belong to this user and be writable by nobody else; remove it, or name another stateDirectory`,
    )
  }

  #path({ pid, startTime }: ProcessId): string {
    return join(this.#directory, `${pid}-${startTime}.json`)
  }

  #read(path: string): JournalEntry | undefined {
    try {
      const entry = JSON.parse(readFileSync(path, 'utf8')) as JournalEntry
      return entry.version === 1 && entry.bootId === this.#bootId && Number.isSafeInteger(entry.pid) ? entry : undefined
    } catch {
      return undefined
    }
  }
}

let nextScratch = 0

function busy({ pid, owner }: { readonly pid: number; readonly owner?: ProcessId | undefined }): EGpuError {
  const who = owner === undefined ? 'another process' : `process ${owner.pid}`
  return new EGpuError(
    EGpuErrorCode.DeviceBusy,
    `${who} is moving or parking process ${pid} already; wait until it is done`,
    {
      driver: 'cuda',
    },
  )
}
