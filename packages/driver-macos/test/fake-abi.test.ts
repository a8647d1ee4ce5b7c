import koffi from 'koffi'
import { describe, expect, it } from 'vitest'
import { openLibraries } from '../src/native/libraries.js'
import { FakeMac } from './fake-iokit.ts'
import { idleMac } from './egpu-mac.ts'
import { entry, findEntry } from './mac.ts'

const usb = (...children: string[]) =>
  entry(
    'IOUSBHostDevice',
    'hub',
    undefined,
    {},
    children.map((name) => entry('IOUSBHostDevice', name, undefined)),
  )

/** The rules the driver relies on, so that a fake which breaks them turns red here and not somewhere else. */
describe('the fake kernel', () => {
  async function subscribe() {
    const tree = idleMac()
    const mac = await FakeMac.boot(tree)
    const parent = findEntry(tree, (node) => node.name === 'arm-io').id
    const libraries = openLibraries(mac.paths)
    const port = libraries.IONotificationPortCreate(0)
    const calls: number[] = []
    const callback = libraries.registerMatchingCallback((_refcon, iterator) => calls.push(iterator))
    const out = new Uint32Array(1)
    const matching = libraries.IOServiceMatching('IOUSBHostDevice')
    libraries.IOServiceAddMatchingNotification(port, 'IOServiceFirstPublish', matching, callback, null, out)
    const [iterator = 0] = out
    const drain = (): string[] => {
      const names: string[] = []
      for (let one = libraries.IOIteratorNext(iterator); one !== 0; one = libraries.IOIteratorNext(iterator)) {
        const buffer = Buffer.alloc(128)
        libraries.IORegistryEntryGetName(one, buffer)
        names.push(buffer.toString('utf8', 0, buffer.indexOf(0)))
        libraries.IOObjectRelease(one)
      }
      return names
    }
    const close = (): void => {
      libraries.IOObjectRelease(iterator)
      libraries.IONotificationPortDestroy(port)
      libraries.unregisterCallback(callback)
    }
    return { mac, parent, libraries, port, calls, drain, close }
  }

  it('hands changes out last in, first out, to somebody who never services the port', async () => {
    const { mac, parent, calls, drain, close } = await subscribe()
    drain()
    mac.attach(parent, usb('a', 'b'))
    expect(drain()).toEqual(['b', 'a', 'hub'])
    expect(drain()).toEqual([])
    expect(calls).toEqual([])
    close()
  })

  it('keeps every ping of a port that nobody services', async () => {
    const { mac, parent, drain, close } = await subscribe()
    for (let count = 1; count <= 20; count += 1) {
      drain()
      mac.attach(parent, usb())
      expect(mac.counts().pings).toBe(count)
    }
    close()
    expect(mac.counts().pings).toBe(0)
  })

  it('keeps 1024 changes and drops the rest', async () => {
    const { mac, parent, drain, close } = await subscribe()
    drain()
    mac.attach(parent, usb(...Array.from({ length: 1100 }, (_, index) => `device${index}`)))
    expect(drain()).toHaveLength(1024)
    close()
  })

  it('pings a run loop only when armed and empty, and once for a burst', async () => {
    const { mac, parent, libraries, port, calls, drain, close } = await subscribe()
    const mode = libraries.CFStringCreateWithCString(null, 'kCFRunLoopDefaultMode', 0x08000100)
    const loop = libraries.CFRunLoopGetCurrent()
    const source = libraries.IONotificationPortGetRunLoopSource(port)
    libraries.CFRunLoopAddSource(loop, source, mode)
    const turn = (): number => libraries.CFRunLoopRunInMode(mode, 0, 1)
    // Not armed before the first drain.
    mac.attach(parent, usb())
    expect([turn(), calls.length]).toEqual([3, 0])
    drain()
    mac.attach(parent, usb('a', 'b', 'c'))
    mac.attach(parent, usb('d'))
    expect([turn(), calls.length]).toEqual([4, 1])
    expect([turn(), calls.length]).toEqual([3, 1])
    // Not empty, so the next does not ping either.
    mac.attach(parent, usb())
    expect([turn(), calls.length]).toEqual([3, 1])
    drain()
    mac.attach(parent, usb())
    expect([turn(), calls.length]).toEqual([4, 2])
    libraries.CFRunLoopStop(loop)
    expect(turn()).toBe(2)
    libraries.CFRunLoopRemoveSource(loop, source, mode)
    libraries.CFRelease(mode)
    close()
  })

  it('calls back from the thread of a dispatch queue', async () => {
    const { mac, parent, port, calls, drain, close } = await subscribe()
    const library = koffi.load(mac.paths.ioKit)
    const createQueue = library.func('void *dispatch_queue_create(const char *, void *)')
    const releaseQueue = library.func('void dispatch_release(void *)')
    const setQueue = library.func('void IONotificationPortSetDispatchQueue(void *, void *)')
    const queue: unknown = createQueue('test', null)
    setQueue(port, queue)
    drain()
    mac.attach(parent, usb())
    while (calls.length === 0) await new Promise((resolve) => setTimeout(resolve, 1))
    expect(calls).toHaveLength(1)
    setQueue(port, null)
    releaseQueue(queue)
    close()
  })

  it('counts what is released too often, asked of the wrong kind, or left behind', async () => {
    const mac = await FakeMac.boot(idleMac())
    const libraries = openLibraries(mac.paths)
    const before = mac.counts()
    const text = libraries.CFStringCreateWithCString(null, 'x', 0x08000100)
    expect(mac.counts().objects).toBe(before.objects + 1)
    libraries.CFNumberGetValue(text, 4, new BigInt64Array(1))
    libraries.CFRelease(text)
    libraries.CFRelease(text)
    libraries.CFRelease(null)
    libraries.IOObjectRelease(0x1234)
    expect(mac.counts()).toEqual({ ...before, faults: before.faults + 4 })
  })
})
