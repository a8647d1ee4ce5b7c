import type { StoreEntry, StoreFile, StoreFs } from '@egpu/migrator/node'

interface Inode {
  /** What a read sees. */
  bytes: Uint8Array
  /** What is on the disk for certain. */
  durable: Uint8Array
}

type Directory = Map<string, Inode | 'directory'>

/** Called before every operation with its name and path; may throw, hang or crash. */
export type FsHook = (operation: string, path: string) => Promise<void> | void

/**
 * A file system in memory that forgets on a crash whatever was not synced: of each file an arbitrary part, of each
 * directory an arbitrary selection of the changes.
 */
export class CrashFs implements StoreFs {
  hook: FsHook = () => undefined
  operations = 0
  readonly #now = new Map<string, Directory>()
  readonly #durable = new Map<string, Directory>()
  readonly #id: string

  constructor(id: string = 'disk') {
    this.#id = id
    this.#now.set('/store', new Map())
    this.#durable.set('/store', new Map())
  }

  /** What the disk holds after the power failed now. `random` gives numbers from 0 to 1. */
  crash(random: () => number): CrashFs {
    const after = new CrashFs(`${this.#id}'`)
    for (const [path, durable] of this.#durable) {
      const now = this.#now.get(path) ?? new Map()
      const entries: Directory = new Map()
      for (const name of new Set([...durable.keys(), ...now.keys()])) {
        const entry = random() < 0.5 ? durable.get(name) : now.get(name)
        if (entry !== undefined) entries.set(name, entry === 'directory' ? entry : whatIsLeft(entry, random))
      }
      after.#now.set(path, entries)
      after.#durable.set(path, new Map(entries))
    }
    // A directory whose own entry was lost cannot be reached any more.
    for (const path of after.#now.keys()) {
      if (path !== '/store' && after.#now.get(parentOf(path))?.get(nameOf(path)) !== 'directory') after.#forget(path)
    }
    return after
  }

  /** Names and contents, for tests that alter them. */
  files(): { readonly path: string; readonly bytes: Uint8Array }[] {
    return [...this.#now].flatMap(([directory, entries]) =>
      [...entries].flatMap(([name, inode]) =>
        inode === 'directory' ? [] : [{ path: `${directory}/${name}`, bytes: inode.bytes }],
      ),
    )
  }

  async open(path: string, mode: 'read' | 'create'): Promise<StoreFile> {
    await this.#step(`open to ${mode}`, path)
    const directory = this.#directory(parentOf(path))
    const found = directory.get(nameOf(path))
    if (mode === 'create') {
      if (found !== undefined) throw failure('EEXIST', path)
      const inode: Inode = { bytes: new Uint8Array(), durable: new Uint8Array() }
      directory.set(nameOf(path), inode)
      return this.#file(path, inode)
    }
    if (found === undefined || found === 'directory') throw failure('ENOENT', path)
    return this.#file(path, found)
  }

  async list(path: string): Promise<readonly StoreEntry[]> {
    await this.#step('list', path)
    return [...this.#directory(path)].map(([name, entry]) => ({ name, kind: entry === 'directory' ? entry : 'file' }))
  }

  async makeDirectory(path: string): Promise<void> {
    await this.#step('make directory', path)
    for (let end = path.indexOf('/', 1); ; end = path.indexOf('/', end + 1)) {
      const here = end === -1 ? path : path.slice(0, end)
      if (!this.#now.has(here)) {
        this.#directory(parentOf(here)).set(nameOf(here), 'directory')
        this.#now.set(here, new Map())
        this.#durable.set(here, new Map())
      }
      if (end === -1) return
    }
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#step('rename', to)
    const source = this.#directory(parentOf(from))
    const entry = source.get(nameOf(from))
    if (entry === undefined) throw failure('ENOENT', from)
    source.delete(nameOf(from))
    this.#directory(parentOf(to)).set(nameOf(to), entry)
  }

  async remove(path: string): Promise<void> {
    await this.#step('remove', path)
    this.#now.get(parentOf(path))?.delete(nameOf(path))
  }

  async syncDirectory(path: string): Promise<void> {
    await this.#step('sync directory', path)
    this.#durable.set(path, new Map(this.#directory(path)))
  }

  async identify(path: string): Promise<{ id: string; modifiedMs: number }> {
    await this.#step('identify', path)
    return { id: this.#id, modifiedMs: 0 }
  }

  #file(path: string, inode: Inode): StoreFile {
    return {
      read: async (into, position) => {
        await this.#step('read', path)
        const piece = inode.bytes.subarray(position, position + into.byteLength)
        into.set(piece)
        return piece.byteLength
      },
      write: async (bytes, position) => {
        await this.#step('write', path)
        const next = new Uint8Array(Math.max(inode.bytes.byteLength, position + bytes.byteLength))
        next.set(inode.bytes)
        next.set(bytes, position)
        inode.bytes = next
      },
      sync: async () => {
        await this.#step('sync', path)
        inode.durable = inode.bytes.slice()
      },
      size: async () => {
        await this.#step('size', path)
        return inode.bytes.byteLength
      },
      close: async () => this.#step('close', path),
    }
  }

  async #step(operation: string, path: string): Promise<void> {
    this.operations += 1
    await this.hook(operation, path)
  }

  #directory(path: string): Directory {
    const directory = this.#now.get(path)
    if (directory === undefined) throw failure('ENOENT', path)
    return directory
  }

  #forget(path: string): void {
    this.#now.delete(path)
    this.#durable.delete(path)
  }
}

/** Of bytes that were not synced each block may be there, be zero or be missing with all that follow. */
function whatIsLeft({ bytes, durable }: Inode, random: () => number): Inode {
  if (random() < 0.25) return { bytes: durable.slice(), durable: durable.slice() }
  const left = bytes.slice(0, random() < 0.5 ? bytes.byteLength : Math.floor(random() * (bytes.byteLength + 1)))
  for (let at = 0; at < left.byteLength; at += 64) {
    const isSame = durable.subarray(at, at + 64).every((byte, i) => byte === left[at + i])
    const isSynced = isSame && durable.byteLength >= Math.min(at + 64, left.byteLength)
    if (!isSynced && random() < 0.3) left.fill(0, at, at + 64)
  }
  const result = durable.byteLength > left.byteLength ? durable.slice() : left
  // What was synced is there, whatever came after it.
  result.set(durable.subarray(0, Math.min(durable.byteLength, result.byteLength)))
  return { bytes: result, durable: result.slice() }
}

export function failure(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code })
}

function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/'))
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
