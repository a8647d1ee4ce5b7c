import { openNetlinkSocket } from '../native/netlink.ts'
import type { Datagram } from '../native/netlink.ts'
import type { OpenUeventSource } from './source.ts'
import { UeventSourceKind } from './source.ts'
import { parseKernelUevent, parseUdevMessage } from './uevent.ts'
import type { Uevent } from './uevent.ts'

/** Multicast groups of NETLINK_KOBJECT_UEVENT: `UDEV_MONITOR_KERNEL` and `UDEV_MONITOR_UDEV` of systemd's libudev. */
const groups = { kernel: 1, udev: 2 } as const

/** What one plug of a full dock needs many times over; the default of 208 KiB overflows when udev coldplugs. */
const defaultReceiveBufferBytes = 8 * 1024 * 1024

/** Most datagrams handled in one turn of the event loop, so that a burst lets others run. */
const mostPerTurn = 64

/** A call for nothing at all proves nothing; this many in a row are a socket that is broken. */
const mostEmptyCalls = 1000

export interface NetlinkSourceOptions {
  /** Wished size of the socket's buffer; without CAP_NET_ADMIN the kernel caps it at `net.core.rmem_max`. */
  readonly receiveBufferBytes?: number | undefined
}

/**
 * Uevents from a netlink socket on the event loop of this thread; needs no root. Keeps the process alive until it is
 * closed. Rejects when koffi or the socket is not to be had.
 */
export function netlinkSource(kind: 'kernel' | 'udev', options: NetlinkSourceOptions = {}): OpenUeventSource {
  const { receiveBufferBytes = defaultReceiveBufferBytes } = options
  const read = kind === 'kernel' ? readKernel : readUdev
  return async (listener, { signal } = {}) => {
    signal?.throwIfAborted()
    const socket = await openNetlinkSocket({ groups: groups[kind], receiveBufferBytes })
    if (signal?.aborted === true) {
      socket.close()
      throw signal.reason
    }
    let closed = false
    let dropped = socket.dropped()
    let emptyCalls = 0
    const close = (): Promise<void> => {
      closed = true
      socket.close()
      return Promise.resolve()
    }
    const onReadable = (): void => {
      let heard = 0
      for (let datagram = socket.receive(); datagram !== undefined; datagram = socket.receive()) {
        const event = read(datagram)
        if (event !== undefined) listener({ type: 'uevent', event })
        if (++heard === mostPerTurn) break
      }
      if (closed) return
      const droppedNow = socket.dropped()
      const lost = droppedNow !== dropped
      dropped = droppedNow
      if (lost) listener({ type: 'overflow' })
      emptyCalls = heard > 0 || lost ? 0 : emptyCalls + 1
      if (emptyCalls > mostEmptyCalls) {
        void close()
        listener({ type: 'failed', reason: 'the uevent socket wakes for nothing' })
      }
    }
    try {
      socket.poll(() => guarded(onReadable))
    } catch (error) {
      await close()
      throw error
    }
    return { kind, close, [Symbol.asyncDispose]: close }
  }
}

/** What is thrown into koffi's loop callback is lost, and nothing is heard after it: it goes to the process instead. */
function guarded(work: () => void): void {
  try {
    work()
  } catch (error) {
    setImmediate(() => {
      throw error
    })
  }
}

/** Only the kernel has port 0. Anything else was sent by a process and proves nothing. */
function readKernel({ bytes, port }: Datagram): Uevent | undefined {
  return port === 0 ? parseKernelUevent(textOf(bytes)) : undefined
}

/** udevd is a process, of root. */
function readUdev({ bytes, uid }: Datagram): Uevent | undefined {
  return uid === 0 ? parseUdevMessage(bytes) : undefined
}

function textOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('utf8')
}

export const kernelSource: OpenUeventSource = netlinkSource(UeventSourceKind.Kernel)
export const udevSource: OpenUeventSource = netlinkSource(UeventSourceKind.Udev)
