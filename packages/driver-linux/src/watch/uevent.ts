/** One device event of the kernel, as it was sent. */
export interface Uevent {
  /** `add`, `remove`, `change`, `move`, `online`, `offline`, `bind` or `unbind`. */
  readonly action: string
  /** Path below `/sys`, starting with a slash. */
  readonly devpath: string
  readonly subsystem: string | undefined
  /** Counts all events since boot. Present on everything that the kernel or udev sends. */
  readonly seqnum: number | undefined
  /** All `KEY=value` pairs, these four included. */
  readonly properties: ReadonlyMap<string, string>
}

/** Marks a libudev monitor message: `UDEV_MONITOR_MAGIC` of systemd's libudev-monitor, big-endian on the wire. */
const udevMagic = 0xfeedcafe
const udevPrefix = 'libudev\0'
const udevHeaderBytes = 40

const utf8: InstanceType<typeof TextDecoder> = new TextDecoder()

/**
 * Reads the text of a kernel datagram, `ACTION@DEVPATH\0KEY=value\0…` (lib/kobject_uevent.c). `undefined` for anything
 * else: a header that contradicts the properties was not written by the kernel.
 */
export function parseKernelUevent(datagram: string): Uevent | undefined {
  const end = datagram.indexOf('\0')
  if (end <= 0) return undefined
  const header = datagram.slice(0, end)
  const event = fromProperties(readPairs(datagram.slice(end + 1)))
  return event !== undefined && header === `${event.action}@${event.devpath}` ? event : undefined
}

/** Reads a message of udev's multicast group: a 40-byte header, then `KEY=value\0…`. `undefined` for anything else. */
export function parseUdevMessage(datagram: Uint8Array): Uevent | undefined {
  if (datagram.byteLength < udevHeaderBytes) return undefined
  if (utf8.decode(datagram.subarray(0, udevPrefix.length)) !== udevPrefix) return undefined
  const view = new DataView(datagram.buffer, datagram.byteOffset, datagram.byteLength)
  if (view.getUint32(8) !== udevMagic) return undefined
  const start = view.getUint32(16, true)
  const length = view.getUint32(20, true)
  if (start < udevHeaderBytes || start + length > datagram.byteLength) return undefined
  return fromProperties(readPairs(utf8.decode(datagram.subarray(start, start + length))))
}

/** An event from its properties; `undefined` when the ones that every event has are missing. */
export function fromProperties(properties: ReadonlyMap<string, string>): Uevent | undefined {
  const action = properties.get('ACTION')
  const devpath = properties.get('DEVPATH')
  if (action === undefined || !/^[a-z]+$/.test(action) || devpath === undefined || !devpath.startsWith('/')) {
    return undefined
  }
  return { action, devpath, subsystem: properties.get('SUBSYSTEM'), seqnum: readSeqnum(properties), properties }
}

/** Whether somebody wrote to a `uevent` file, so that nothing happened to the device (`SYNTH_UUID`, since 4.13). */
export function isSynthetic(event: Uevent): boolean {
  return event.properties.has('SYNTH_UUID')
}

function readSeqnum(properties: ReadonlyMap<string, string>): number | undefined {
  const value = properties.get('SEQNUM')
  if (value === undefined || !/^\d{1,15}$/.test(value)) return undefined
  return Number(value)
}

function readPairs(text: string): ReadonlyMap<string, string> {
  const pairs = new Map<string, string>()
  for (const pair of text.split('\0')) {
    const equals = pair.indexOf('=')
    if (equals > 0) pairs.set(pair.slice(0, equals), pair.slice(equals + 1))
  }
  return pairs
}
