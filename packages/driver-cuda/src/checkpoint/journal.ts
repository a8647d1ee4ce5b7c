import {
  closeSync,
  fsyncSync,
  linkSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { bootId, readProcess, readText } from '../processes/proc.ts'
import { prepareStateDirectory } from './state-directory.ts'

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

  /** Everything noted in this boot, by the names of the files. */
  entries(): readonly JournalEntry[] {
    return this.#names()
      .filter((name) => entryName.test(name))
      .sort()
      .map((name) => this.#read(join(this.#directory, name)))
      .filter((entry) => entry !== undefined)
  }

  /** Whether somebody is at it who is alive. */
  isOwned({ owner }: JournalEntry): boolean {
    return owner !== undefined && readProcess(this.#procRoot, owner.pid)?.startTime === owner.startTime
  }

  /**
   * Notes that we begin with this process, and gives what was noted before: what a dead owner left, or that it is parked.
   * Only now does the state that the driver tells stay as it is, so look at it after this. Throws `EGPU_DEVICE_BUSY`
   * when a living process is at it, `EGPU_PERMISSION_DENIED` when nothing can be noted.
   */
  claim(about: Omit<JournalEntry, 'version' | 'bootId' | 'owner' | 'goal'>): JournalEntry | undefined {
    return this.#noting(() => {
      prepareStateDirectory(this.#directory)
      const path = this.#path(about)
      const mark = this.#announce(about, path)
      try {
        // Of two who announce themselves at once, at least one sees the other here, or in the entry below.
        for (const name of this.#names()) {
          const other = join(this.#directory, name)
          if (other === mark || !other.startsWith(`${path}.`)) continue
          const entry = this.#read(other)
          if (entry !== undefined && this.isOwned(entry)) throw busy(entry)
          rmSync(other, { force: true })
        }
        const before = this.#read(path)
        if (before !== undefined && this.isOwned(before)) throw busy(before)
        renameSync(mark, path)
        this.#syncDirectory()
        return before
      } catch (error) {
        rmSync(mark, { force: true })
        throw error
      }
    })
  }

  /** We have done nothing to it after all: what was noted before our claim is noted again. */
  unclaim(id: ProcessId, before: JournalEntry | undefined): void {
    if (before === undefined) this.forget(id)
    else this.#noting(() => this.#replace(id, this.#entry(before)))
  }

  /** It is parked now and stays so without us. */
  parked(id: ProcessId): void {
    // Without its note nobody would find it again.
    if (!this.#change(id, { goal: 'parked', owner: undefined })) this.#noting(noteIsGone)
  }

  /** What it holds, seen while it can make no more CUDA calls. */
  holds(id: ProcessId, gpus: JournalEntry['gpus']): void {
    this.#change(id, { gpus })
  }

  /** We could not finish and are no longer at it; whoever recovers may be. */
  disown(id: ProcessId): void {
    const owner = this.#read(this.#path(id))?.owner
    if (owner?.pid === this.#self.pid && owner.startTime === this.#self.startTime)
      this.#change(id, { owner: undefined })
  }

  /**
   * It runs, or has ended: there is nothing to remember. A note that cannot be taken away does no harm, as recovery asks
   * the driver.
   */
  forget(id: ProcessId): void {
    const path = this.#path(id)
    for (const name of this.#names()) {
      const file = join(this.#directory, name)
      if (file !== path && !file.startsWith(`${path}.`)) continue
      try {
        unlinkSync(file)
      } catch {
        // It is gone, or on a file system that has become read-only.
      }
    }
  }

  /** False when there is no note. */
  #change(id: ProcessId, change: Partial<JournalEntry>): boolean {
    return this.#noting(() => {
      const entry = this.#read(this.#path(id))
      if (entry !== undefined) this.#replace(id, this.#entry({ ...entry, ...change }))
      return entry !== undefined
    })
  }

  /** A full disk or a missing right as an error of this SDK. */
  #noting<T>(work: () => T): T {
    try {
      return work()
    } catch (cause) {
      if (EGpuError.is(cause)) throw cause
      const why = cause instanceof Error ? cause.message : String(cause)
      throw new EGpuError(
        EGpuErrorCode.PermissionDenied,
        `nothing can be noted in ${this.#directory} (${why}), and without a note a crash could leave a program stopped: make room there, or name another stateDirectory`,
        { cause, driver: 'cuda' },
      )
    }
  }

  /** The file that says that we are about to claim. There is one for each of us who wants it. */
  #announce(about: Omit<JournalEntry, 'version' | 'bootId' | 'owner' | 'goal'>, path: string): string {
    const mark = `${path}.${this.#self.pid}`
    const content = this.#entry({ ...about, goal: 'running', owner: this.#self })
    if (this.#create(mark, content)) return mark
    const other = this.#read(mark)
    if (other !== undefined && this.isOwned(other)) throw busy(other)
    // Left by a dead process that had our pid.
    rmSync(mark, { force: true })
    if (this.#create(mark, content)) return mark
    throw busy(about)
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
    return true
  }

  #replace(id: ProcessId, content: string): void {
    renameSync(this.#write(content), this.#path(id))
    this.#syncDirectory()
  }

  #write(content: string): string {
    const scratch = join(this.#directory, `.${this.#self.pid}-${nextScratch++}`)
    try {
      writeFileSync(scratch, content, { mode: 0o600, flush: true })
    } catch (error) {
      rmSync(scratch, { force: true })
      throw error
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

  #path({ pid, startTime }: ProcessId): string {
    return join(this.#directory, `${pid}-${startTime}.json`)
  }

  #names(): readonly string[] {
    try {
      return readdirSync(this.#directory)
    } catch {
      return []
    }
  }

  /**
   * Notes of other boots are of no process that is there. One that cannot be read, as after a power failure, still says
   * with its name whom it was about, and it may be stopped.
   */
  #read(path: string): JournalEntry | undefined {
    const [, pid, startTime = ''] = entryName.exec(basename(path).replace(/(?<=\.json)\.\d+$/, '')) ?? []
    const text = readText(path)
    if (text === undefined || pid === undefined) return undefined
    const entry = parsed(text)
    if (entry === undefined || entry.pid !== Number(pid) || entry.startTime !== startTime) {
      const name = readProcess(this.#procRoot, Number(pid))?.name ?? 'a process'
      return {
        version: 1,
        bootId: this.#bootId,
        pid: Number(pid),
        startTime,
        goal: 'running',
        group: [Number(pid)],
        name,
        gpus: [],
      }
    }
    return entry.bootId === this.#bootId ? entry : undefined
  }
}

const entryName = /^(\d+)-(\d+)\.json$/

/** `undefined` for what no version of ours has written whole. */
function parsed(text: string): JournalEntry | undefined {
  try {
    const entry = JSON.parse(text) as Partial<JournalEntry> | null
    const isWhole =
      entry?.version === 1 &&
      (entry.goal === 'running' || entry.goal === 'parked') &&
      typeof entry.bootId === 'string' &&
      typeof entry.name === 'string' &&
      isArrayOf(entry.group, (pid) => Number.isSafeInteger(pid)) &&
      isArrayOf(entry.gpus, (gpu) => typeof gpu?.uuid === 'string' && typeof gpu.bytes === 'number')
    return isWhole ? (entry as JournalEntry) : undefined
  } catch {
    return undefined
  }
}

function isArrayOf<T>(value: readonly T[] | undefined, is: (element: T) => boolean): boolean {
  return Array.isArray(value) && value.every(is)
}

let nextScratch = 0

function noteIsGone(): never {
  throw new Error('the note of a program was taken away')
}

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
