import { abandonable } from '@egpu/core'
import type { Clock } from '@egpu/core'
import type { Libraries, Pointer } from '../native/libraries.d.ts'
import type { RegistryChange, RegistryWatch, WaitOptions } from '../registry/source.ts'
import { kernelRefused } from './registry.ts'

/** `IOServiceUserNotification` in xnu keeps this many objects and drops the rest. */
const kernelKeeps = 1024

export interface PollOptions {
  readonly clock: Clock
  readonly intervalMs: number
}

/** kIOReturnNoResources (IOReturn.h), for a call that says NULL instead. */
const noResources = 0xe00002be

const nothing: RegistryChange = { added: [], removed: [], overflowed: false }

/** A run loop mode of our own, so that taking messages from our port runs nothing else on this thread. */
const privateMode = 'egpu-driver-macos'
const utf8 = 0x08000100
/** kCFRunLoopRunHandledSource (CFRunLoop.h). */
const handledSource = 4
/** More messages than there are notifications cannot be waiting after one look. */
const mostMessages = 64

/**
 * Subscribes at the kernel and asks it every so often what came and went. A notification collects its objects whether
 * or not anybody listens to its port (xnu, `IOUserClient.cpp`), so nothing is lost between two looks, and no thread or
 * callback is needed. Its port gets a message for each burst all the same, and a port keeps what nobody takes
 * (`MACH_SEND_ALWAYS`), so after each burst the messages are taken, without waiting.
 */
export class PollWatch implements RegistryWatch {
  readonly #libraries: Libraries
  readonly #options: PollOptions
  readonly #port: Pointer
  readonly #callback: bigint
  readonly #published: number[] = []
  readonly #terminated: number[] = []
  readonly #id = new BigUint64Array(1)
  readonly #mode: Pointer
  readonly #source: Pointer
  #open = true

  constructor(libraries: Libraries, classNames: readonly string[], options: PollOptions) {
    this.#libraries = libraries
    this.#options = options
    this.#port = libraries.IONotificationPortCreate(0)
    if (this.#port === null) throw kernelRefused('IONotificationPortCreate', noResources)
    this.#source = libraries.IONotificationPortGetRunLoopSource(this.#port)
    this.#mode = libraries.CFStringCreateWithCString(null, privateMode, utf8)
    libraries.CFRunLoopAddSource(libraries.CFRunLoopGetCurrent(), this.#source, this.#mode)
    // IOKit calls it for each message; that there is one is all it says, and that was known.
    this.#callback = libraries.registerMatchingCallback(() => {})
    try {
      for (const className of classNames) {
        // FirstPublish, not FirstMatch: that one waits until a driver was found, and for an undriven GPU may be late.
        this.#published.push(this.#subscribe('IOServiceFirstPublish', className))
        this.#terminated.push(this.#subscribe('IOServiceTerminate', className))
      }
    } catch (error) {
      this.#close()
      throw error
    }
    // What is there already is not news.
    this.#drain()
  }

  next({ signal, timeoutMs }: WaitOptions): Promise<RegistryChange> {
    return abandonable(this.#change(timeoutMs, signal), signal)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#close()
  }

  async #change(timeoutMs: number, signal: AbortSignal): Promise<RegistryChange> {
    const { clock, intervalMs } = this.#options
    const end = clock.now() + timeoutMs
    for (;;) {
      // A wait that was given up tells nobody, so what it took from the kernel would be lost.
      if (signal.aborted) return nothing
      const change = this.#drain()
      const leftMs = end - clock.now()
      if (change !== nothing || leftMs <= 0) return change
      // Looking takes time too, so ask a little before the period is over. Four times a second, a signal for each sleep
      // would cost as much as the asking; the abandoned sleep after an abort ends by itself.
      await clock.sleep(Math.min(intervalMs - Math.min(15, intervalMs / 10), leftMs))
    }
  }

  #drain(): RegistryChange {
    if (!this.#open) return nothing
    const added: bigint[] = []
    const removed: bigint[] = []
    let most = 0
    for (const iterator of this.#published) most = Math.max(most, this.#take(iterator, added))
    for (const iterator of this.#terminated) most = Math.max(most, this.#take(iterator, removed))
    if (most === 0) return nothing
    this.#takeMessages()
    return { added, removed, overflowed: most >= kernelKeeps }
  }

  /** Only the id of what has gone can be relied on, so that is all that is asked for. Returns how many there were. */
  #take(iterator: number, ids: bigint[]): number {
    const libraries = this.#libraries
    let count = 0
    for (let entry = libraries.IOIteratorNext(iterator); entry !== 0; entry = libraries.IOIteratorNext(iterator)) {
      count += 1
      if (libraries.IORegistryEntryGetRegistryEntryID(entry, this.#id) === 0) ids.push(this.#id[0] as bigint)
      libraries.IOObjectRelease(entry)
    }
    return count
  }

  #takeMessages(): void {
    for (let count = 0; count < mostMessages; count += 1) {
      if (this.#libraries.CFRunLoopRunInMode(this.#mode, 0, 1) !== handledSource) return
    }
  }

  #subscribe(type: string, className: string): number {
    const out = new Uint32Array(1)
    const matching = this.#libraries.IOServiceMatching(className)
    const result = this.#libraries.IOServiceAddMatchingNotification(
      this.#port,
      type,
      matching,
      this.#callback,
      null,
      out,
    )
    if (result !== 0) throw kernelRefused(`IOServiceAddMatchingNotification(${type}, ${className})`, result)
    return out[0] as number
  }

  #close(): void {
    if (!this.#open) return
    this.#open = false
    for (const iterator of [...this.#published, ...this.#terminated]) this.#libraries.IOObjectRelease(iterator)
    this.#libraries.CFRunLoopRemoveSource(this.#libraries.CFRunLoopGetCurrent(), this.#source, this.#mode)
    this.#libraries.CFRelease(this.#mode)
    this.#libraries.IONotificationPortDestroy(this.#port)
    this.#libraries.unregisterCallback(this.#callback)
  }
}
