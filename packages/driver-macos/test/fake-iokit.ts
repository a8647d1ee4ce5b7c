import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import koffi from 'koffi'
import { iokitSource } from '../src/iokit/source.ts'
import type { IoKitSourceOptions } from '../src/iokit/source.ts'
import type { LibraryPaths } from '../src/native/libraries.d.ts'
import type { RegistrySource } from '../src/registry/source.ts'
import { toPlist } from './registry-tree.ts'
import type { TreeNode } from './registry-tree.ts'

const sources = new URL('./fake-iokit/', import.meta.url)

/** What the fake counts: nothing may be left of the first three, and a fault is a bug in who calls. */
export interface Counts {
  readonly objects: number
  readonly handles: number
  readonly ports: number
  readonly faults: number
  /** Messages waiting at ports; an open watch may have a few. */
  readonly pings: number
}

/** A machine whose registry is played by a C library with IOKit's and CoreFoundation's interface. */
export class FakeMac {
  readonly paths: LibraryPaths
  readonly #control: ReturnType<typeof bindControl>

  private constructor(library: string) {
    this.paths = { ioKit: library, coreFoundation: library }
    this.#control = bindControl(library)
  }

  /** Compiles the library once for each version of its sources. It is one per process: so is the machine. */
  static async boot(tree: TreeNode): Promise<FakeMac> {
    const mac = new FakeMac(await buildLibrary())
    mac.load(tree)
    return mac
  }

  load(tree: TreeNode): void {
    accept('load', this.#control.load(toPlist(tree)))
  }

  source(options: IoKitSourceOptions = {}): RegistrySource {
    return iokitSource({
      libraries: this.paths,
      pollIntervalMs: 5,
      systemExtensions: async () => undefined,
      ...options,
    })
  }

  /** Publishes a subtree; unmatched ones are not enumerated until `match`. */
  attach(parent: bigint, tree: TreeNode | string, { matched = true }: { readonly matched?: boolean } = {}): void {
    const plist = typeof tree === 'string' ? tree : toPlist(tree)
    accept('attach', this.#control.attach(parent, plist, matched ? 1 : 0))
  }

  match(id: bigint): void {
    accept('match', this.#control.match(id))
  }

  detach(id: bigint, { keepProperties = false }: { readonly keepProperties?: boolean } = {}): void {
    accept('detach', this.#control.detach(id, keepProperties ? 1 : 0))
  }

  set(id: bigint, key: string, value: TreeNode['properties'][string] | undefined): void {
    const plist = value === undefined ? '' : toPlist({ ...emptyNode, properties: { value } }, { bare: true })
    accept('set', this.#control.set(id, key, plist))
  }

  /** Terminates an entry while somebody reads it, after so many of its properties. */
  vanish(id: bigint, afterReads: number, { keepProperties = false }: { readonly keepProperties?: boolean } = {}): void {
    accept('vanish', this.#control.vanish(id, afterReads, keepProperties ? 1 : 0))
  }

  /** Makes the next calls of a function fail. */
  fail(functionName: string, count: number, result: number = 0xe00002bc): void {
    this.#control.fail(functionName, result | 0, count)
  }

  invalidateIterators(count: number): void {
    this.#control.invalidateIterators(count)
  }

  thermal(level: number | undefined): void {
    this.#control.thermal(level ?? 255, level === undefined ? 0xe00002f0 | 0 : 0)
  }

  counts(): Counts {
    const out = new BigInt64Array(5)
    this.#control.stats(out)
    const [objects = 0, handles = 0, ports = 0, faults = 0, pings = 0] = [...out].map(Number)
    return { objects, handles, ports, faults, pings }
  }
}

const emptyNode: TreeNode = { id: 0n, className: '', name: '', properties: {}, children: [] }

function bindControl(path: string) {
  const library = koffi.load(path)
  return {
    load: library.func('int FakeIOKit_load(const char *)') as (plist: string) => number,
    attach: library.func('int FakeIOKit_attach(uint64_t, const char *, int)') as (
      parent: bigint,
      plist: string,
      matched: number,
    ) => number,
    match: library.func('int FakeIOKit_match(uint64_t)') as (id: bigint) => number,
    detach: library.func('int FakeIOKit_detach(uint64_t, int)') as (id: bigint, keep: number) => number,
    vanish: library.func('int FakeIOKit_vanish(uint64_t, int, int)') as (id: bigint, n: number, keep: number) => number,
    set: library.func('int FakeIOKit_set(uint64_t, const char *, const char *)') as (
      id: bigint,
      key: string,
      plist: string,
    ) => number,
    fail: library.func('void FakeIOKit_fail(const char *, int32_t, int)') as (f: string, kr: number, n: number) => void,
    invalidateIterators: library.func('void FakeIOKit_invalidateIterators(int)') as (count: number) => void,
    thermal: library.func('void FakeIOKit_thermal(uint32_t, int32_t)') as (level: number, kr: number) => void,
    stats: library.func('void FakeIOKit_stats(void *)') as (out: BigInt64Array) => void,
  }
}

function accept(what: string, result: number): void {
  if (result !== 0) throw new Error(`the fake machine could not ${what}`)
}

/** Needs a C compiler; without one these tests cannot run, and failing says so. */
async function buildLibrary(): Promise<string> {
  const files = (await readdir(sources)).filter((name) => /\.[ch]$/.test(name)).sort()
  const hash = createHash('sha256')
  for (const file of files) hash.update(await readFile(new URL(file, sources)))
  const directory = join(tmpdir(), `egpu-fake-iokit-${process.getuid?.() ?? 0}`)
  const library = join(directory, `${hash.digest('hex').slice(0, 16)}.so`)
  await mkdir(directory, { recursive: true })
  if ((await readdir(directory)).some((name) => library.endsWith(name))) return library
  const draft = `${library}.${process.pid}`
  const units = files.filter((name) => name.endsWith('.c')).map((name) => new URL(name, sources).pathname)
  const flags = ['-std=gnu11', '-Wall', '-Wextra', '-Werror', '-O1', '-g', '-fPIC', '-fvisibility=hidden', '-pthread']
  await promisify(execFile)(process.env['CC'] ?? 'cc', [...flags, '-shared', '-o', draft, ...units])
  await rename(draft, library)
  return library
}
