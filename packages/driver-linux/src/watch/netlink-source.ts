import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import type { OpenUeventSource, SourceListener, UeventSource } from './source.ts'
import { UeventSourceKind } from './source.ts'
import { parseKernelUevent, parseUdevMessage } from './uevent.ts'

/** Multicast groups of NETLINK_KOBJECT_UEVENT: `UDEV_MONITOR_KERNEL` and `UDEV_MONITOR_UDEV` of systemd's libudev. */
const groups = { kernel: 1, udev: 2 } as const

/** What one plug of a full dock needs many times over; the default of 208 KiB overflows when udev coldplugs. */
const defaultReceiveBufferBytes = 8 * 1024 * 1024

export interface NetlinkSourceOptions {
  /** Wished size of the socket's buffer; without CAP_NET_ADMIN the kernel caps it at `net.core.rmem_max`. */
  readonly receiveBufferBytes?: number | undefined
}

/** What native/netlink-worker.js sends; a datagram with one byte per character. */
type WorkerMessage =
  | { readonly type: 'listening' }
  | { readonly type: 'datagrams'; readonly datagrams: readonly string[] }
  | { readonly type: 'overflow' }

/**
 * Uevents from a netlink socket, received in a worker thread; needs no root. Keeps the process alive until it is closed.
 * Rejects when koffi or the socket is not to be had.
 */
export function netlinkSource(kind: 'kernel' | 'udev', options: NetlinkSourceOptions = {}): OpenUeventSource {
  return async (listener, { signal } = {}) => {
    signal?.throwIfAborted()
    const stop = new Int32Array(new SharedArrayBuffer(4))
    const worker = new Worker(workerUrl(), {
      name: `egpu-uevents-${kind}`,
      workerData: {
        group: groups[kind],
        receiveBufferBytes: options.receiveBufferBytes ?? defaultReceiveBufferBytes,
        onlyFromKernel: kind === 'kernel',
        stop,
      },
      // The parent's loaders and preloads are none of the worker's business.
      execArgv: [],
    })
    const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()))
    return new Promise<UeventSource>((resolve, reject) => {
      let listening = false
      const close = (): Promise<void> => {
        Atomics.store(stop, 0, 1)
        return exited
      }
      const abort = (): void => {
        void close()
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', abort, { once: true })
      worker.on('message', (message: WorkerMessage) => {
        if (Atomics.load(stop, 0) !== 0) return
        if (message.type === 'listening') {
          listening = true
          signal?.removeEventListener('abort', abort)
          resolve({ kind, close, [Symbol.asyncDispose]: close })
        } else deliver(message, kind, listener)
      })
      worker.once('error', (error) => {
        signal?.removeEventListener('abort', abort)
        if (listening) listener({ type: 'failed', reason: error.message })
        else reject(error)
      })
    })
  }
}

function deliver(message: WorkerMessage, kind: 'kernel' | 'udev', listener: SourceListener): void {
  if (message.type === 'overflow') listener({ type: 'overflow' })
  if (message.type !== 'datagrams') return
  for (const datagram of message.datagrams) {
    const event = kind === 'kernel' ? parseKernelUevent(textOf(datagram)) : parseUdevMessage(bytesOf(datagram))
    if (event !== undefined) listener({ type: 'uevent', event })
  }
}

function bytesOf(datagram: string): Uint8Array {
  return Buffer.from(datagram, 'latin1')
}

/** Almost all events are plain ASCII, which needs no decoding. */
function textOf(datagram: string): string {
  return /[\u0080-\u00ff]/.test(datagram) ? Buffer.from(datagram, 'latin1').toString('utf8') : datagram
}

/** Found through the manifest's `imports`, which means the same file from the sources and from the built package. */
function workerUrl(): URL {
  return pathToFileURL(createRequire(import.meta.url).resolve('#netlink-worker'))
}

export const kernelSource: OpenUeventSource = netlinkSource(UeventSourceKind.Kernel)
export const udevSource: OpenUeventSource = netlinkSource(UeventSourceKind.Udev)
