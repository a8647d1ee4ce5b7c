import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { Libraries } from '../native/libraries.d.ts'
import type { Registry, RegistryEntry } from '../registry/source.ts'
import type { RegistryValue } from '../registry/value.ts'
import type { CoreFoundationValues } from './values.ts'

const plane = 'IOService'
/** A registry that changes while it is listed makes the iterator start over; a quiet moment comes. */
const maxRestarts = 8

/** The kernel's registry. */
export class IoKitRegistry implements Registry {
  readonly #libraries: Libraries
  readonly #values: CoreFoundationValues

  constructor(libraries: Libraries, values: CoreFoundationValues) {
    this.#libraries = libraries
    this.#values = values
  }

  get rootId(): bigint | undefined {
    const handle = this.#libraries.IORegistryGetRootEntry(0)
    if (handle === 0) return undefined
    const root = new IoKitEntry(this.#libraries, this.#values, handle)
    try {
      return root.id
    } finally {
      root[Symbol.dispose]()
    }
  }

  matching(className: string): readonly RegistryEntry[] {
    for (let attempt = 0; ; attempt += 1) {
      const matching = this.#libraries.IOServiceMatching(className)
      const result = this.#libraries.IOServiceGetMatchingServices(0, matching, handleOut)
      if (result !== 0) throw kernelRefused(`IOServiceGetMatchingServices(${className})`, result)
      const iterator = handleOut[0] as number
      const entries = collect(this.#libraries, this.#values, iterator)
      const valid = this.#libraries.IOIteratorIsValid(iterator) !== 0
      this.#libraries.IOObjectRelease(iterator)
      if (valid || attempt === maxRestarts) return entries
      for (const entry of entries) entry[Symbol.dispose]()
    }
  }

  entry(id: bigint): RegistryEntry | undefined {
    const matching = this.#libraries.IORegistryEntryIDMatching(id)
    const handle = this.#libraries.IOServiceGetMatchingService(0, matching)
    return handle === 0 ? undefined : new IoKitEntry(this.#libraries, this.#values, handle)
  }
}

/** What a call into the kernel that failed is reported as. */
export function kernelRefused(call: string, result: number): EGpuError {
  const code = `0x${(result >>> 0).toString(16)}`
  return new EGpuError(EGpuErrorCode.NativeUnavailable, `${call} failed with ${code}`, { driver: 'macos' })
}

function collect(libraries: Libraries, values: CoreFoundationValues, iterator: number): RegistryEntry[] {
  const entries: RegistryEntry[] = []
  for (let handle = libraries.IOIteratorNext(iterator); handle !== 0; handle = libraries.IOIteratorNext(iterator)) {
    entries.push(new IoKitEntry(libraries, values, handle))
  }
  return entries
}

/** Where C puts its answers; every call is synchronous, so one of each does for all. */
const idOut = new BigUint64Array(1)
const handleOut = new Uint32Array(1)
/** io_name_t is 128 bytes. */
const nameOut: Buffer = Buffer.alloc(128)

/** Owns one `io_registry_entry_t`. */
class IoKitEntry implements RegistryEntry {
  readonly #libraries: Libraries
  readonly #values: CoreFoundationValues
  #handle: number

  constructor(libraries: Libraries, values: CoreFoundationValues, handle: number) {
    this.#libraries = libraries
    this.#values = values
    this.#handle = handle
  }

  get id(): bigint | undefined {
    return this.#libraries.IORegistryEntryGetRegistryEntryID(this.#handle, idOut) === 0 ? idOut[0] : undefined
  }

  get className(): string {
    return this.#name((buffer) => this.#libraries.IOObjectGetClass(this.#handle, buffer)) ?? ''
  }

  get name(): string {
    return this.#name((buffer) => this.#libraries.IORegistryEntryGetName(this.#handle, buffer)) ?? ''
  }

  get location(): string | undefined {
    return this.#name((buffer) => this.#libraries.IORegistryEntryGetLocationInPlane(this.#handle, plane, buffer))
  }

  conformsTo(className: string): boolean {
    return this.#libraries.IOObjectConformsTo(this.#handle, className) !== 0
  }

  property(key: string): RegistryValue | undefined {
    const object = this.#libraries.IORegistryEntryCreateCFProperty(this.#handle, this.#values.key(key), null, 0)
    return this.#values.consume(object)
  }

  parent(): RegistryEntry | undefined {
    const result = this.#libraries.IORegistryEntryGetParentEntry(this.#handle, plane, handleOut)
    return result === 0 ? new IoKitEntry(this.#libraries, this.#values, handleOut[0] as number) : undefined
  }

  children(): readonly RegistryEntry[] {
    if (this.#libraries.IORegistryEntryGetChildIterator(this.#handle, plane, handleOut) !== 0) return []
    const iterator = handleOut[0] as number
    const children = collect(this.#libraries, this.#values, iterator)
    this.#libraries.IOObjectRelease(iterator)
    return children
  }

  [Symbol.dispose](): void {
    if (this.#handle === 0) return
    this.#libraries.IOObjectRelease(this.#handle)
    this.#handle = 0
  }

  #name(read: (buffer: Uint8Array) => number): string | undefined {
    if (read(nameOut) !== 0) return undefined
    const end = nameOut.indexOf(0)
    return nameOut.toString('utf8', 0, end === -1 ? nameOut.length : end) || undefined
  }
}
