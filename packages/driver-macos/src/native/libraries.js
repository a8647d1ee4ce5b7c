// The one file of this package that loads native code, and plain JavaScript, because worker threads of Node 20 cannot
// load TypeScript and the push worker needs it too. libraries.d.ts has its types. Importing it loads koffi and nothing
// of macOS; `openLibraries` loads that.
import koffi from 'koffi'

/**
 * From IOKitLib.h. `void *` stands for everything that is a pointer or comes back through one: koffi passes typed
 * arrays as they are. `io_object_t`, `mach_port_t` and `kern_return_t` are 32 bits; Boolean is 8.
 */
const ioKitPrototypes = {
  IORegistryGetRootEntry: 'uint32_t IORegistryGetRootEntry(uint32_t)',
  IOServiceMatching: 'void *IOServiceMatching(const char *)',
  IORegistryEntryIDMatching: 'void *IORegistryEntryIDMatching(uint64_t)',
  IOServiceGetMatchingService: 'uint32_t IOServiceGetMatchingService(uint32_t, void *)',
  IOServiceGetMatchingServices: 'int32_t IOServiceGetMatchingServices(uint32_t, void *, void *)',
  IOIteratorNext: 'uint32_t IOIteratorNext(uint32_t)',
  IOIteratorIsValid: 'uint8_t IOIteratorIsValid(uint32_t)',
  IOObjectRelease: 'int32_t IOObjectRelease(uint32_t)',
  IOObjectGetClass: 'int32_t IOObjectGetClass(uint32_t, void *)',
  IOObjectConformsTo: 'uint8_t IOObjectConformsTo(uint32_t, const char *)',
  IORegistryEntryGetName: 'int32_t IORegistryEntryGetName(uint32_t, void *)',
  IORegistryEntryGetLocationInPlane: 'int32_t IORegistryEntryGetLocationInPlane(uint32_t, const char *, void *)',
  IORegistryEntryGetRegistryEntryID: 'int32_t IORegistryEntryGetRegistryEntryID(uint32_t, void *)',
  IORegistryEntryGetParentEntry: 'int32_t IORegistryEntryGetParentEntry(uint32_t, const char *, void *)',
  IORegistryEntryGetChildIterator: 'int32_t IORegistryEntryGetChildIterator(uint32_t, const char *, void *)',
  IORegistryEntryCreateCFProperty: 'void *IORegistryEntryCreateCFProperty(uint32_t, void *, void *, uint32_t)',
  IONotificationPortCreate: 'void *IONotificationPortCreate(uint32_t)',
  IONotificationPortDestroy: 'void IONotificationPortDestroy(void *)',
  IONotificationPortGetRunLoopSource: 'void *IONotificationPortGetRunLoopSource(void *)',
  IOServiceAddMatchingNotification:
    'int32_t IOServiceAddMatchingNotification(void *, const char *, void *, void *, void *, void *)',
  IOPMGetThermalWarningLevel: 'int32_t IOPMGetThermalWarningLevel(void *)',
}

/** From CFBase.h, CFString.h and their neighbours. CFIndex and CFTypeID are `long`. */
const coreFoundationPrototypes = {
  CFRelease: 'void CFRelease(void *)',
  CFGetTypeID: 'unsigned long CFGetTypeID(void *)',
  CFStringCreateWithCString: 'void *CFStringCreateWithCString(void *, const char *, uint32_t)',
  CFStringGetLength: 'long CFStringGetLength(void *)',
  CFStringGetCString: 'uint8_t CFStringGetCString(void *, void *, long, uint32_t)',
  CFNumberIsFloatType: 'uint8_t CFNumberIsFloatType(void *)',
  CFNumberGetValue: 'uint8_t CFNumberGetValue(void *, long, void *)',
  CFBooleanGetValue: 'uint8_t CFBooleanGetValue(void *)',
  CFDataGetLength: 'long CFDataGetLength(void *)',
  CFArrayGetCount: 'long CFArrayGetCount(void *)',
  CFArrayGetValueAtIndex: 'void *CFArrayGetValueAtIndex(void *, long)',
  CFDictionaryGetCount: 'long CFDictionaryGetCount(void *)',
  CFDictionaryGetKeysAndValues: 'void CFDictionaryGetKeysAndValues(void *, void *, void *)',
  CFRunLoopGetCurrent: 'void *CFRunLoopGetCurrent()',
  CFRunLoopAddSource: 'void CFRunLoopAddSource(void *, void *, void *)',
  CFRunLoopRemoveSource: 'void CFRunLoopRemoveSource(void *, void *, void *)',
  CFRunLoopRunInMode: 'int32_t CFRunLoopRunInMode(void *, double, uint8_t)',
  CFRunLoopStop: 'void CFRunLoopStop(void *)',
}

/** The kinds of value a property can have. */
const kinds = ['String', 'Number', 'Boolean', 'Data', 'Array', 'Dictionary']

/** `void callback(void *refcon, io_iterator_t iterator)`; nameless, since koffi's type names are global. */
const matchingCallback = koffi.pointer(koffi.proto('void', ['void *', 'uint32_t']))

/** CFRange, passed by value. */
const range = koffi.struct({ location: 'long', length: 'long' })

/** @param {{ ioKit: string, coreFoundation: string }} paths */
export function openLibraries(paths) {
  // Since macOS 11 the frameworks exist in dyld's cache alone: loading them works, looking for the files does not.
  const ioKit = koffi.load(paths.ioKit)
  const coreFoundation = koffi.load(paths.coreFoundation)
  const typeIds = kinds.map((kind) => [kind, coreFoundation.func(`unsigned long CF${kind}GetTypeID()`)()])
  return {
    ...bind(ioKit, ioKitPrototypes),
    ...bind(coreFoundation, coreFoundationPrototypes),
    CFDataGetBytes: coreFoundation.func('CFDataGetBytes', 'void', ['void *', range, 'void *']),
    typeIds: Object.fromEntries(typeIds.map(([kind, id]) => [kind, Number(id)])),
    registerMatchingCallback: (/** @type {(refcon: unknown, iterator: number) => void} */ callback) =>
      koffi.register(callback, matchingCallback),
    unregisterCallback: (/** @type {bigint} */ callback) => koffi.unregister(callback),
  }
}

/**
 * @param {import('koffi').LibraryHandle} library
 * @param {Record<string, string>} prototypes
 */
function bind(library, prototypes) {
  return Object.fromEntries(Object.entries(prototypes).map(([name, prototype]) => [name, library.func(prototype)]))
}
