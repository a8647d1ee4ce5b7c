/** Where the two frameworks are; a test hands over a library of its own. */
export interface LibraryPaths {
  readonly ioKit: string
  readonly coreFoundation: string
}

/** What koffi makes of a C pointer; `null` is NULL. */
export type Pointer = bigint | null

/** What goes where C writes a result. */
export type Out = Uint8Array | Uint32Array | BigUint64Array | BigInt64Array | Float64Array

/**
 * The part of IOKit and CoreFoundation this package uses. What a function whose name has Create, Copy or Next in it
 * returns is the caller's to release; what comes from Get is borrowed; a matching dictionary is used up by the call it
 * goes to, whether that succeeds or not.
 */
export interface Libraries {
  IORegistryGetRootEntry(mainPort: 0): number
  IOServiceMatching(className: string): Pointer
  IORegistryEntryIDMatching(id: bigint): Pointer
  IOServiceGetMatchingService(mainPort: 0, matching: Pointer): number
  IOServiceGetMatchingServices(mainPort: 0, matching: Pointer, iterator: Out): number
  IOIteratorNext(iterator: number): number
  IOIteratorIsValid(iterator: number): number
  IOObjectRelease(object: number): number
  IOObjectGetClass(object: number, name: Out): number
  IOObjectConformsTo(object: number, className: string): number
  IORegistryEntryGetName(entry: number, name: Out): number
  IORegistryEntryGetLocationInPlane(entry: number, plane: string, location: Out): number
  IORegistryEntryGetRegistryEntryID(entry: number, id: Out): number
  IORegistryEntryGetParentEntry(entry: number, plane: string, parent: Out): number
  IORegistryEntryGetChildIterator(entry: number, plane: string, iterator: Out): number
  IORegistryEntryCreateCFProperty(entry: number, key: Pointer, allocator: null, options: 0): Pointer
  IONotificationPortCreate(mainPort: 0): Pointer
  IONotificationPortDestroy(port: Pointer): void
  IONotificationPortGetRunLoopSource(port: Pointer): Pointer
  IOServiceAddMatchingNotification(
    port: Pointer,
    type: string,
    matching: Pointer,
    callback: bigint,
    refcon: null,
    iterator: Out,
  ): number
  IOPMGetThermalWarningLevel(level: Out): number
  CFRelease(object: Pointer): void
  CFGetTypeID(object: Pointer): number | bigint
  CFStringCreateWithCString(allocator: null, text: string, encoding: number): Pointer
  CFStringGetLength(text: Pointer): number | bigint
  CFStringGetCString(text: Pointer, buffer: Out, size: number, encoding: number): number
  CFNumberIsFloatType(number: Pointer): number
  CFNumberGetValue(number: Pointer, type: number, value: Out): number
  CFBooleanGetValue(boolean: Pointer): number
  CFDataGetLength(data: Pointer): number | bigint
  CFDataGetBytes(data: Pointer, range: { readonly location: number; readonly length: number }, bytes: Out): void
  CFArrayGetCount(array: Pointer): number | bigint
  CFArrayGetValueAtIndex(array: Pointer, index: number): Pointer
  CFDictionaryGetCount(dictionary: Pointer): number | bigint
  CFDictionaryGetKeysAndValues(dictionary: Pointer, keys: Out, values: Out): void
  CFRunLoopGetCurrent(): Pointer
  CFRunLoopAddSource(loop: Pointer, source: Pointer, mode: Pointer): void
  CFRunLoopRemoveSource(loop: Pointer, source: Pointer, mode: Pointer): void
  CFRunLoopRunInMode(mode: Pointer, seconds: number, returnAfterSource: 0 | 1): number
  CFRunLoopStop(loop: Pointer): void
  readonly typeIds: Readonly<Record<'String' | 'Number' | 'Boolean' | 'Data' | 'Array' | 'Dictionary', number>>
  /** Keep the result for `unregisterCallback`. */
  registerMatchingCallback(callback: (refcon: unknown, iterator: number) => void): bigint
  unregisterCallback(callback: bigint): void
}

/** Loads both libraries. Throws what koffi throws when one is not there or lacks a function. */
export function openLibraries(paths: LibraryPaths): Libraries
