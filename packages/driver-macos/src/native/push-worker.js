// Runs a CoreFoundation run loop and tells what came and went the moment the kernel says so. A worker, because the
// loop blocks its thread; ../iokit/push-watch.ts starts it and documents the messages.
import { parentPort, workerData } from 'node:worker_threads'
import { openLibraries } from './libraries.js'

/** How long a request to stop can go unnoticed if it arrives between two turns of the loop. */
const turnSeconds = 0.25
/** The kernel keeps this many changes for each notification. */
const kernelKeeps = 1024
const utf8 = 0x08000100

/** @type {{ paths: import('./libraries.js').LibraryPaths, classNames: readonly string[], stop: Int32Array }} */
const { paths, classNames, stop } = workerData
if (parentPort === null) throw new Error('this file is a worker')
const port = parentPort

const libraries = openLibraries(paths)
const notificationPort = libraries.IONotificationPortCreate(0)
if (notificationPort === null) throw new Error('IONotificationPortCreate failed')
const source = libraries.IONotificationPortGetRunLoopSource(notificationPort)
// Modes are compared by value, so a string of our own does for the constant.
const mode = libraries.CFStringCreateWithCString(null, 'kCFRunLoopDefaultMode', utf8)
const loop = libraries.CFRunLoopGetCurrent()
libraries.CFRunLoopAddSource(loop, source, mode)

/** @type {{ added: bigint[], removed: bigint[], overflowed: boolean }} */
let change = { added: [], removed: [], overflowed: false }
const id = new BigUint64Array(1)

/** @param {number} iterator @param {'added' | 'removed'} into */
function drain(iterator, into) {
  let count = 0
  for (let entry = libraries.IOIteratorNext(iterator); entry !== 0; entry = libraries.IOIteratorNext(iterator)) {
    count += 1
    if (libraries.IORegistryEntryGetRegistryEntryID(entry, id) === 0) change[into].push(...id)
    libraries.IOObjectRelease(entry)
  }
  if (count >= kernelKeeps) change.overflowed = true
}

const onAdded = libraries.registerMatchingCallback((_refcon, iterator) => drain(iterator, 'added'))
const onRemoved = libraries.registerMatchingCallback((_refcon, iterator) => drain(iterator, 'removed'))

/** @type {number[]} */
const iterators = []
/** @param {string} type @param {string} className @param {bigint} callback */
function subscribe(type, className, callback) {
  const out = new Uint32Array(1)
  const matching = libraries.IOServiceMatching(className)
  const result = libraries.IOServiceAddMatchingNotification(notificationPort, type, matching, callback, null, out)
  if (result !== 0) throw new Error(`IOServiceAddMatchingNotification failed with 0x${(result >>> 0).toString(16)}`)
  iterators.push(...out)
}

function close() {
  for (const iterator of iterators) libraries.IOObjectRelease(iterator)
  libraries.CFRunLoopRemoveSource(loop, source, mode)
  libraries.IONotificationPortDestroy(notificationPort)
  libraries.CFRelease(mode)
  libraries.unregisterCallback(onAdded)
  libraries.unregisterCallback(onRemoved)
}

function turn() {
  if (Atomics.load(stop, 0) !== 0) {
    close()
    port.close()
    return
  }
  libraries.CFRunLoopRunInMode(mode, turnSeconds, 1)
  if (change.added.length > 0 || change.removed.length > 0 || change.overflowed) {
    port.postMessage(change)
    change = { added: [], removed: [], overflowed: false }
  }
  setImmediate(turn)
}

try {
  for (const className of classNames) {
    subscribe('IOServiceFirstPublish', className, onAdded)
    subscribe('IOServiceTerminate', className, onRemoved)
  }
  // Draining arms a notification; what is there already is not news.
  for (const iterator of iterators) drain(iterator, 'added')
  change = { added: [], removed: [], overflowed: false }
  port.postMessage({ loop })
  turn()
} catch (error) {
  close()
  throw error
}
