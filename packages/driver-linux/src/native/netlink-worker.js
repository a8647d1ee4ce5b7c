// Receives uevents from a netlink socket. The one file of this package that loads native code, and plain JavaScript
// because worker threads of Node 20 cannot load TypeScript; `tsconfig.worker.json` checks its types all the same.
// ../watch/netlink-source.ts starts it and documents the messages it sends.
import { parentPort, workerData } from 'node:worker_threads'
import koffi from 'koffi'

const AF_NETLINK = 16
const NETLINK_KOBJECT_UEVENT = 15
const SOCK_DGRAM = 2
const SOCK_CLOEXEC = 0o2000000
const SOL_SOCKET = 1
const SO_RCVBUF = 8
const SO_RCVBUFFORCE = 33
const SO_RCVTIMEO = 20
const MSG_DONTWAIT = 0x40
const { EAGAIN, EINTR, ENOBUFS } = koffi.os.errno

/** How long a request to stop can go unnoticed. */
const receiveTimeoutMicroseconds = 200_000n
/** Most datagrams handed over at once, so that a burst costs one message per so many and none waits for the last. */
const mostPerBatch = 64
/**
 * JavaScript runs between a call and the reading of its errno, and what runs there can change errno (ENOENT was seen
 * after a plain timeout). One strange errno proves nothing; this many in a row are a socket that is broken. An overflow
 * that goes unseen this way shows as missing sequence numbers.
 */
const mostStrangeErrors = 100
/** The kernel's UEVENT_BUFFER_SIZE is 2048; udev's own messages are longer. */
const datagramBytes = 64 * 1024

/**
 * @typedef {{ group: number, receiveBufferBytes: number | undefined, onlyFromKernel: boolean, stop: Int32Array }} Settings
 */

/** The process's own symbols: works with any libc, and with a preloaded one such as umockdev's. */
const libc = koffi.load(null)
const socket = libc.func('int socket(int, int, int)')
const bind = libc.func('int bind(int, const void *, uint32_t)')
const setsockopt = libc.func('int setsockopt(int, int, int, const void *, uint32_t)')
const recvfrom = libc.func('intptr_t recvfrom(int, void *, size_t, int, void *, void *)')
const close = libc.func('int close(int)')

/** @param {string} call @returns {never} */
function fail(call) {
  const number = koffi.errno()
  const name = Object.entries(koffi.os.errno).find(([, value]) => value === number)?.[0] ?? `errno ${number}`
  throw new Error(`${call} failed with ${name}`)
}

/** @param {Settings} settings */
function openSocket({ group, receiveBufferBytes }) {
  const fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT)
  if (fd < 0) fail('socket(AF_NETLINK, NETLINK_KOBJECT_UEVENT)')
  if (receiveBufferBytes !== undefined) {
    const size = new Uint8Array(new Int32Array([receiveBufferBytes]).buffer)
    // FORCE passes the limit of net.core.rmem_max but needs CAP_NET_ADMIN; the plain option is capped, which is fine.
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, size, 4) < 0) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, size, 4)
  }
  // struct timeval { long tv_sec; long tv_usec }: a blocking call that ends by itself is one call per event, where poll
  // and a non-blocking one are two.
  const timeout = new Uint8Array(
    koffi.sizeof('long') === 8
      ? new BigInt64Array([0n, receiveTimeoutMicroseconds]).buffer
      : new Int32Array([0, Number(receiveTimeoutMicroseconds)]).buffer,
  )
  if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, timeout, timeout.byteLength) < 0) fail('setsockopt(SO_RCVTIMEO)')
  const address = new DataView(new ArrayBuffer(12))
  address.setUint16(0, AF_NETLINK, true)
  address.setUint32(8, group, true)
  if (bind(fd, new Uint8Array(address.buffer), 12) < 0) {
    const number = koffi.errno()
    close(fd)
    koffi.errno(number)
    fail(`bind to uevent group ${group}`)
  }
  return fd
}

/** @param {Settings} settings @param {import('node:worker_threads').MessagePort} port */
function receive(settings, port) {
  const fd = openSocket(settings)
  port.postMessage({ type: 'listening' })
  const datagram = Buffer.alloc(datagramBytes)
  const sender = new DataView(new ArrayBuffer(12))
  const senderBytes = new Uint8Array(sender.buffer)
  const senderLength = new Uint32Array(1)
  /** One byte per character: a string crosses threads several times faster than an array of bytes. */
  /** @param {number} size */
  const textOf = (size) => {
    // Only the kernel has port id 0. Anything else was sent by a process and proves nothing.
    const trusted = !settings.onlyFromKernel || sender.getUint32(4, true) === 0
    return trusted ? datagram.toString('latin1', 0, size) : undefined
  }
  /** @param {number} flags */
  const next = (flags) => {
    senderLength[0] = 12
    return Number(recvfrom(fd, datagram, datagramBytes, flags, senderBytes, senderLength))
  }
  /** @param {(string | undefined)[]} texts */
  const hand = (texts) => {
    const datagrams = texts.filter((text) => text !== undefined)
    if (datagrams.length > 0) port.postMessage({ type: 'datagrams', datagrams })
  }
  let strange = 0
  while (Atomics.load(settings.stop, 0) === 0) {
    let size = next(0)
    if (size >= 0) strange = 0
    // The first is handed over before anybody asks whether there are more.
    if (size >= 0) hand([textOf(size)])
    while (size >= 0) {
      const batch = []
      while (batch.length < mostPerBatch && (size = next(MSG_DONTWAIT)) >= 0) batch.push(textOf(size))
      const number = size < 0 ? koffi.errno() : 0
      hand(batch)
      if (size < 0) koffi.errno(number)
    }
    const number = koffi.errno()
    if (number === ENOBUFS) port.postMessage({ type: 'overflow' })
    else if (number === EAGAIN || number === EINTR) strange = 0
    else if (++strange > mostStrangeErrors) fail('recvfrom on the uevent socket')
  }
  close(fd)
}

if (parentPort !== null) receive(/** @type {Settings} */ (workerData), parentPort)
