import { isMainThread } from 'node:worker_threads'
import type koffi from 'koffi'

const addressFamily = 16 // AF_NETLINK
const protocol = 15 // NETLINK_KOBJECT_UEVENT
const socketType = 2 | 0o2000000 | 0o4000 // SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK
const solSocket = 1
const soReceiveBuffer = 8
const soPassCredentials = 16
const soReceiveBufferForce = 33
const soMemoryInfo = 55
const scmCredentials = 2
/** Index of SK_MEMINFO_DROPS in what SO_MEMINFO tells (include/uapi/linux/sock_diag.h). */
const dropsIndex = 8
/** The kernel's UEVENT_BUFFER_SIZE is 2048; udev's own messages are longer. */
const datagramBytes = 64 * 1024

/** Where the parts of one `recvmsg` lie in one block of memory. */
const layout = { header: 0, vector: 64, sender: 80, control: 96, data: 160 } as const
const senderBytes = 12
/** How long a closed socket of a worker thread can stay. */
const turnMs = 200
const pollIn = 1 // POLLIN
const controlBytes = 64

type Koffi = typeof koffi

export interface Datagram {
  /** Valid until the next one is received. */
  readonly bytes: Uint8Array
  /** Netlink port of the sender; 0 is the kernel. */
  readonly port: number
  /** User id of the sender, as its process really had it; `undefined` when the kernel does not say. */
  readonly uid: number | undefined
}

/** A socket of uevents on the event loop of the thread that opened it. */
export interface NetlinkSocket {
  /** The next datagram that waits, if there is one. */
  receive(): Datagram | undefined
  /**
   * How many datagrams the kernel dropped because the buffer was full. `undefined` before Linux 4.12. errno would say it
   * too (ENOBUFS), but JavaScript runs between a call and the reading of its errno and can change it.
   */
  dropped(): number | undefined
  /** Calls back whenever something waits, until the socket is closed. Keeps the process alive. Call it once. */
  poll(onReadable: () => void): void
  close(): void
}

export interface NetlinkSocketOptions {
  /** Bit mask of multicast groups. */
  readonly groups: number
  /** Wished size of the receive buffer. */
  readonly receiveBufferBytes: number
}

/**
 * Opens a socket of uevents. The one file of this package that loads koffi, which does not happen before the first call.
 * Rejects when koffi cannot be loaded or the kernel refuses.
 */
export async function openNetlinkSocket({ groups, receiveBufferBytes }: NetlinkSocketOptions): Promise<NetlinkSocket> {
  const { default: koffi } = await import('koffi')
  // The process's own symbols: works with any libc, and with a preloaded one such as umockdev's.
  const libc = koffi.load(null)
  const setOption = libc.func('int setsockopt(int, int, int, const void *, uint32_t)')
  const getOption = libc.func('int getsockopt(int, int, int, void *, void *)')
  const receiveMessage = libc.func('intptr_t recvmsg(int, void *, int)')
  const closeFile = libc.func('int close(int)')
  const why = (call: string): Error => {
    const number = koffi.errno()
    const name = Object.entries(koffi.os.errno).find(([, value]) => value === number)?.[0] ?? `errno ${number}`
    return new Error(`${call} failed with ${name}`)
  }

  const fd: number = libc.func('int socket(int, int, int)')(addressFamily, socketType, protocol)
  if (fd < 0) throw why('socket(AF_NETLINK, NETLINK_KOBJECT_UEVENT)')
  const size = Int32Array.of(receiveBufferBytes)
  // FORCE passes the limit of net.core.rmem_max but needs CAP_NET_ADMIN; the plain option is capped, which is fine.
  if (setOption(fd, solSocket, soReceiveBufferForce, size, 4) < 0) setOption(fd, solSocket, soReceiveBuffer, size, 4)
  setOption(fd, solSocket, soPassCredentials, Int32Array.of(1), 4)
  const address = new DataView(new ArrayBuffer(senderBytes))
  address.setUint16(0, addressFamily, true)
  address.setUint32(8, groups, true)
  if (libc.func('int bind(int, const void *, uint32_t)')(fd, new Uint8Array(address.buffer), senderBytes) < 0) {
    const error = why(`bind to uevent group ${groups}`)
    closeFile(fd)
    throw error
  }

  const memory = new Uint8Array(layout.data + datagramBytes)
  const word = koffi.sizeof('void *')
  const view = fillHeader(memory, koffi.address(memory), word)
  const memoryInfo = new Uint32Array(dropsIndex + 1)
  const memoryInfoBytes = Uint32Array.of(memoryInfo.byteLength)
  let open = true
  let stop: (() => void) | undefined
  return {
    receive() {
      if (!open) return undefined
      view.setUint32(layout.header + word, senderBytes, true)
      view.setUint32(layout.header + 5 * word, controlBytes, true)
      const length = Number(receiveMessage(fd, memory, 0))
      if (length < 0) return undefined
      return {
        bytes: memory.subarray(layout.data, layout.data + length),
        port: view.getUint32(layout.sender + 4, true),
        uid: uidIn(view, word),
      }
    },
    dropped() {
      if (!open || getOption(fd, solSocket, soMemoryInfo, memoryInfo, memoryInfoBytes) < 0) return undefined
      return memoryInfo[dropsIndex]
    },
    poll(onReadable) {
      if (open) stop = (isMainThread ? pollOnLoop : pollInPool)(koffi, fd, onReadable)
    },
    close() {
      if (!open) return
      open = false
      if (stop === undefined) closeFile(fd)
      else stop()
    },
  }
}

/** Waits on libuv's own loop: nothing stands between the kernel and the callback. Returns how to stop and close. */
function pollOnLoop(koffi: Koffi, fd: number, onReadable: () => void): () => void {
  const closeFile = koffi.load(null).func('int close(int)')
  // koffi hands over libuv's status, which its typings do not say. It is negative after an error, of which a full buffer
  // is one, and libuv has stopped then (`uv__poll_io`).
  const callback = (status: unknown): void => {
    if (typeof status === 'number' && status < 0) handle.start(callback)
    onReadable()
  }
  const handle = koffi.node.poll(fd, callback)
  return () => {
    handle.close()
    closeFile(fd)
  }
}

/**
 * Waits in a thread of libuv's pool, for worker threads: one that is terminated lets no JavaScript run any more, and koffi
 * ends the whole process when its loop callback throws.
 */
function pollInPool(koffi: Koffi, fd: number, onReadable: () => void): () => void {
  const libc = koffi.load(null)
  const poll = libc.func('int poll(void *, unsigned long, int)')
  const request = new DataView(new ArrayBuffer(8))
  request.setInt32(0, fd, true)
  request.setInt16(4, pollIn, true)
  const bytes = new Uint8Array(request.buffer)
  let open = true
  const wait = (): void => {
    poll.async(bytes, 1, turnMs, (_error: unknown, ready: number) => {
      if (open && ready > 0) onReadable()
      if (open) wait()
      else libc.func('int close(int)')(fd)
    })
  }
  wait()
  return () => {
    open = false
  }
}

/**
 * Writes `struct msghdr { name, namelen, iov, iovlen, control, controllen, flags }` and its one `struct iovec`. Every
 * member takes a machine word, with padding where it is shorter.
 */
function fillHeader(memory: Uint8Array, base: bigint, word: number): DataView {
  const view = new DataView(memory.buffer)
  const put = (offset: number, value: bigint | number): void => {
    if (word === 8) view.setBigUint64(offset, BigInt(value), true)
    else view.setUint32(offset, Number(value), true)
  }
  put(layout.header, base + BigInt(layout.sender))
  put(layout.header + 2 * word, base + BigInt(layout.vector))
  put(layout.header + 3 * word, 1)
  put(layout.header + 4 * word, base + BigInt(layout.control))
  put(layout.vector, base + BigInt(layout.data))
  put(layout.vector + word, datagramBytes)
  return view
}

/** Out of `struct cmsghdr { size_t len; int level; int type }` and the `struct ucred { pid, uid, gid }` behind it. */
function uidIn(view: DataView, word: number): number | undefined {
  if (view.getUint32(layout.header + 5 * word, true) < word + 8 + senderBytes) return undefined
  const level = view.getInt32(layout.control + word, true)
  const type = view.getInt32(layout.control + word + 4, true)
  return level === solSocket && type === scmCredentials ? view.getUint32(layout.control + word + 12, true) : undefined
}
