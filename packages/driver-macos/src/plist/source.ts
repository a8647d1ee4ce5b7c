import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { ProbeResult } from '@egpu/core/driver'
import { conformsByName } from '../registry/inheritance.ts'
import type { Registry, RegistryEntry, RegistrySource } from '../registry/source.ts'
import { asArray, asDictionary, asInteger, asText } from '../registry/value.ts'
import type { RegistryValue } from '../registry/value.ts'
import { parsePlist } from './parse.ts'

export interface PlistSourceOptions {
  /** What `systemextensionsctl list` printed on the same Mac: tells whether a driver extension waits for approval. */
  readonly systemExtensions?: string | undefined
}

/** Where a recording keeps what it knows of driver extensions, beside the registry's own entries. */
export const extensionsKey = 'EGPU System Extensions'

/**
 * A registry from what `ioreg -a -l -i -w0` printed or `recordMac` made, on any operating system: a dump that somebody
 * mailed. It is read when it is first asked; a damaged dump makes `probe()` say so and `open()` reject with
 * `EGPU_MALFORMED_DATA`.
 */
export function plistSource(dump: string | Uint8Array, options: PlistSourceOptions = {}): RegistrySource {
  if (typeof dump !== 'string' && !(dump instanceof Uint8Array)) {
    throw new TypeError('plistSource() takes the text or the bytes that `ioreg -a -l -i` printed')
  }
  let read: Dump | undefined
  const open = (): Dump => (read ??= readDump(dump))
  return {
    name: 'plist',
    async probe(): Promise<ProbeResult> {
      try {
        open()
        return { usable: true }
      } catch (cause) {
        return { usable: false, reason: cause instanceof Error ? cause.message : String(cause), cause }
      }
    },
    open: async () => open().registry,
    systemExtensions: async () => options.systemExtensions ?? open().systemExtensions,
    async [Symbol.asyncDispose]() {},
  }
}

interface Dump {
  readonly registry: Registry
  readonly systemExtensions: string | undefined
}

/** Builds a registry out of a dump; `EGPU_MALFORMED_DATA` when that is none. */
export function readDump(dump: string | Uint8Array): Dump {
  const root = parsePlist(typeof dump === 'string' ? dump : decode(dump))
  const tops = asArray(root) ?? [root]
  const tree = new Tree()
  for (const top of tops) tree.add(top, undefined)
  if (tree.size === 0) {
    const message = 'this property list holds no registry entry; make one with `ioreg -a -l -i -w0 > dump.plist`'
    throw new EGpuError(EGpuErrorCode.MalformedData, message)
  }
  const [systemExtensions] = tops.flatMap((top) => asText(asDictionary(top)?.[extensionsKey]) ?? [])
  return { registry: tree, systemExtensions }
}

/** Whole registries are some 30 MB; what no string can hold is something else. */
function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder(isUtf16(bytes) ? 'utf-16le' : 'utf-8').decode(bytes)
  } catch (cause) {
    const message = `this dump of ${bytes.length} bytes is too long to be a registry`
    throw new EGpuError(EGpuErrorCode.MalformedData, message, { cause })
  }
}

/** PowerShell's `>` saves text so. */
function isUtf16(bytes: Uint8Array): boolean {
  return bytes[0] === 0xff && bytes[1] === 0xfe
}

class Tree implements Registry {
  /** Nothing changes in a dump. */
  readonly rootId: undefined = undefined
  readonly #entries = new Map<bigint, DumpEntry>()

  get size(): number {
    return this.#entries.size
  }

  /** `ioreg` prints a service once below each of its parents; the first counts, as the kernel's first parent does. */
  add(value: RegistryValue, parent: DumpEntry | undefined): void {
    const properties = asDictionary(value)
    if (properties === undefined) return
    const id = asInteger(properties['IORegistryEntryID'])
    let entry = parent
    if (id !== undefined && !this.#entries.has(id)) {
      entry = new DumpEntry(id, properties, parent)
      this.#entries.set(id, entry)
      parent?.below.push(entry)
    }
    const children = properties['IORegistryEntryChildren']
    // With `-t` the children of an entry on the way down are one dictionary instead of an array.
    for (const child of asArray(children) ?? (children === undefined ? [] : [children])) this.add(child, entry)
  }

  matching(className: string): readonly RegistryEntry[] {
    return [...this.#entries.values()].filter((entry) => entry.conformsTo(className))
  }

  entry(id: bigint): RegistryEntry | undefined {
    return this.#entries.get(id)
  }
}

class DumpEntry implements RegistryEntry {
  readonly id: bigint
  readonly className: string
  readonly name: string
  readonly location: string | undefined
  readonly below: DumpEntry[] = []
  readonly #properties: { readonly [key: string]: RegistryValue }
  readonly #parent: DumpEntry | undefined
  readonly #inheritance: readonly RegistryValue[] | undefined

  constructor(id: bigint, properties: { readonly [key: string]: RegistryValue }, parent: DumpEntry | undefined) {
    this.id = id
    this.className = asText(properties['IOObjectClass']) ?? ''
    this.name = asText(properties['IORegistryEntryName']) ?? ''
    this.location = asText(properties['IORegistryEntryLocation'])
    this.#properties = properties
    this.#parent = parent
    this.#inheritance = asArray(properties['IOObjectInheritance'])
  }

  conformsTo(className: string): boolean {
    if (this.className === className) return true
    if (this.#inheritance !== undefined) return this.#inheritance.includes(className)
    return conformsByName(this.className, className)
  }

  property(key: string): RegistryValue | undefined {
    return Object.hasOwn(this.#properties, key) ? this.#properties[key] : undefined
  }

  parent(): RegistryEntry | undefined {
    return this.#parent
  }

  children(): readonly RegistryEntry[] {
    return this.below
  }

  [Symbol.dispose](): void {}
}
