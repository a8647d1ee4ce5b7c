import type { Libraries, Pointer } from '../native/libraries.d.ts'
import type { RegistryValue } from '../registry/value.ts'

/** kCFStringEncodingUTF8 (CFString.h). */
const utf8 = 0x08000100
/** kCFNumberSInt64Type and kCFNumberFloat64Type (CFNumber.h). */
const int64 = 4
const float64 = 6
/** Properties of a registry are a few levels deep; deeper ones are cut off. */
const maxDepth = 16

/** Turns CoreFoundation objects into plain values, and keeps the strings that name properties. */
export class CoreFoundationValues implements Disposable {
  readonly #libraries: Libraries
  readonly #keys = new Map<string, Pointer>()
  readonly #int64 = new BigInt64Array(1)
  readonly #float64 = new Float64Array(1)
  #text: Buffer = Buffer.alloc(1024)

  constructor(libraries: Libraries) {
    this.#libraries = libraries
  }

  /** A CFString, made once for each name and kept until this is disposed. */
  key(name: string): Pointer {
    let key = this.#keys.get(name)
    if (key === undefined) {
      key = this.#libraries.CFStringCreateWithCString(null, name, utf8)
      this.#keys.set(name, key)
    }
    return key
  }

  /** Reads an object that the caller owns, and releases it. */
  consume(object: Pointer): RegistryValue | undefined {
    if (object === null) return undefined
    try {
      return this.#read(object, 0)
    } finally {
      this.#libraries.CFRelease(object)
    }
  }

  [Symbol.dispose](): void {
    for (const key of this.#keys.values()) if (key !== null) this.#libraries.CFRelease(key)
    this.#keys.clear()
  }

  /** Unknown kinds, such as dates and sets, are `undefined`: no property the driver reads has one. */
  #read(object: Pointer, depth: number): RegistryValue | undefined {
    if (object === null || depth > maxDepth) return undefined
    const { typeIds } = this.#libraries
    switch (Number(this.#libraries.CFGetTypeID(object))) {
      case typeIds.Number:
        return this.#number(object)
      case typeIds.String:
        return this.#string(object)
      case typeIds.Boolean:
        return this.#libraries.CFBooleanGetValue(object) !== 0
      case typeIds.Data:
        return this.#data(object)
      case typeIds.Array:
        return this.#array(object, depth)
      case typeIds.Dictionary:
        return this.#dictionary(object, depth)
      default:
        return undefined
    }
  }

  #number(object: Pointer): bigint | number | undefined {
    if (this.#libraries.CFNumberIsFloatType(object) !== 0) {
      return this.#libraries.CFNumberGetValue(object, float64, this.#float64) === 0 ? undefined : this.#float64[0]
    }
    return this.#libraries.CFNumberGetValue(object, int64, this.#int64) === 0 ? undefined : this.#int64[0]
  }

  #string(object: Pointer): string | undefined {
    // UTF-8 takes at most three bytes for a UTF-16 unit.
    const size = Number(this.#libraries.CFStringGetLength(object)) * 3 + 1
    if (this.#text.length < size) this.#text = Buffer.alloc(size)
    if (this.#libraries.CFStringGetCString(object, this.#text, this.#text.length, utf8) === 0) return undefined
    return this.#text.toString('utf8', 0, this.#text.indexOf(0))
  }

  #data(object: Pointer): Uint8Array {
    const length = Number(this.#libraries.CFDataGetLength(object))
    const bytes = new Uint8Array(length)
    if (length > 0) this.#libraries.CFDataGetBytes(object, { location: 0, length }, bytes)
    return bytes
  }

  #array(object: Pointer, depth: number): readonly RegistryValue[] {
    const count = Number(this.#libraries.CFArrayGetCount(object))
    return Array.from({ length: count }, (_, index) => this.#libraries.CFArrayGetValueAtIndex(object, index))
      .map((item) => this.#read(item, depth + 1))
      .filter((item) => item !== undefined)
  }

  #dictionary(object: Pointer, depth: number): { readonly [key: string]: RegistryValue } {
    const count = Number(this.#libraries.CFDictionaryGetCount(object))
    const keys = new BigUint64Array(count)
    const values = new BigUint64Array(count)
    if (count > 0) this.#libraries.CFDictionaryGetKeysAndValues(object, keys, values)
    const entries: [string, RegistryValue][] = []
    for (const [index, key] of keys.entries()) {
      const name = this.#read(key, depth + 1)
      const value = this.#read(values[index] as bigint, depth + 1)
      if (typeof name === 'string' && value !== undefined) entries.push([name, value])
    }
    return Object.fromEntries(entries)
  }
}
