import { connect, type Socket } from 'node:net'
import { EGpuError, EGpuErrorCode, type AbortOptions } from '@egpu/core'
import type { PeerConnection } from '../control/peer-connection.ts'
import { asCount, asShape, asText } from '../shape.ts'
import { headerBytes, ProbeMode, tokenBytes, type ProbeServer } from './probe-server.ts'

export interface Latency {
  /** The shortest round trip: what the link itself costs. Microseconds. */
  readonly minUs: number
  /** The middle one: what a request has to expect. Microseconds. */
  readonly p50Us: number
  readonly samples: number
}

export interface LatencyOptions extends AbortOptions {
  readonly samples?: number | undefined
}

export interface Throughput {
  /** To this host and from it, in Gb/s. */
  readonly receiveGbps: number
  readonly transmitGbps: number
  readonly bytes: number
}

/** Round trips that only make the code warm. */
const warmUp = 30
const latencySamples = 200
const selfSamples = 100
/** Measuring stops here, with however many samples: a slow link shows itself in ten. */
const latencyBudgetMs = 500
const fewestSamples = 10
/**
 * So many round trips have to come within so much of the shortest before it counts as what the link costs: one alone that was
 * lucky, or a machine so busy that none was, shows in that.
 */
const confirmations = 5
const confirmedWithin = { share: 0.02, leastUs: 3 } as const
const messageBytes = 14
const probeDeadlineMs = 10_000
const defaultBudgetBytes = 32 * 1024 * 1024

/** Round trips of small messages over plain TCP with TCP_NODELAY, over this very link. */
export async function measureLatency(
  connection: PeerConnection,
  { signal, samples = latencySamples }: LatencyOptions = {},
): Promise<Latency> {
  const deadline = within(signal)
  return roundTripsOver(await openProbe(connection, ProbeMode.Echo, 0, deadline), samples, deadline)
}

/**
 * What a round trip takes when there is no link and nobody to wake: both ends are this process, over loopback. The same work
 * is in every round trip to a peer, half of it here and half there.
 */
export async function measureSelf(server: ProbeServer, { signal }: AbortOptions = {}): Promise<Latency> {
  const deadline = within(signal)
  const host = '127.0.0.1'
  const [port, token] = [server.port, server.grant(host)]
  if (port === undefined || token === undefined)
    throw new EGpuError(EGpuErrorCode.PeerRefused, 'this host does not answer probes now')
  const socket = connect({ host, port, noDelay: true })
  return roundTripsOver(await begin(socket, { token, mode: ProbeMode.Echo, count: 0 }, deadline), selfSamples, deadline)
}

async function roundTripsOver(socket: Socket, samples: number, signal: AbortSignal): Promise<Latency> {
  try {
    const times = await roundTrips(socket, samples, signal)
    times.sort((a, b) => a - b)
    return { minUs: times[0] as number, p50Us: times[times.length >> 1] as number, samples: times.length }
  } finally {
    socket.destroy()
  }
}

/** Sends and takes `bytes` each way and says how fast the later three quarters went, without the start of the connection. */
export async function measureThroughput(
  connection: PeerConnection,
  { signal, bytes = defaultBudgetBytes }: AbortOptions & { readonly bytes?: number | undefined } = {},
): Promise<Throughput> {
  const deadline = within(signal)
  const receiveGbps = await receive(connection, bytes, deadline)
  const transmitGbps = await transmit(connection, bytes, deadline)
  return { receiveGbps, transmitGbps, bytes }
}

async function receive(connection: PeerConnection, bytes: number, signal: AbortSignal): Promise<number> {
  const socket = await openProbe(connection, ProbeMode.Send, bytes, signal)
  try {
    return await new Promise<number>((resolve, reject) => {
      let got = 0
      let from: { readonly bytes: number; readonly at: number } | undefined
      watch(socket, signal, reject)
      socket.on('data', (chunk: Buffer) => {
        got += chunk.length
        if (from === undefined && got >= bytes / 4) from = { bytes: got, at: performance.now() }
        if (got >= bytes) resolve(rate(bytes - (from?.bytes ?? 0), performance.now() - (from?.at ?? 0)))
      })
    })
  } finally {
    socket.destroy()
  }
}

async function transmit(connection: PeerConnection, bytes: number, signal: AbortSignal): Promise<number> {
  const socket = await openProbe(connection, ProbeMode.Take, bytes, signal)
  try {
    return await new Promise<number>((resolve, reject) => {
      const block = Buffer.alloc(256 * 1024, 0xaa)
      let left = bytes
      let from: { readonly left: number; readonly at: number } | undefined
      watch(socket, signal, reject)
      socket.once('data', () => resolve(rate(from?.left ?? bytes, performance.now() - (from?.at ?? 0))))
      const go = (): void => {
        while (left > 0) {
          if (from === undefined && left <= (bytes * 3) / 4) from = { left, at: performance.now() }
          const part = block.subarray(0, Math.min(left, block.length))
          left -= part.length
          if (!socket.write(part)) {
            socket.once('drain', go)
            return
          }
        }
      }
      go()
    })
  } finally {
    socket.destroy()
  }
}

function rate(bytes: number, ms: number): number {
  return (bytes * 8) / (ms * 1e6)
}

/** Asks for a token over the authenticated connection and shows it over a plain one on the same link. */
async function openProbe(
  connection: PeerConnection,
  mode: ProbeMode,
  count: number,
  signal: AbortSignal,
): Promise<Socket> {
  const { link } = connection
  const granted = asShape(await connection.request('mesh.probe', undefined, { signal }))
  const port = asCount(granted?.['port'], 65_535, 1)
  const token = asText(granted?.['token'])
  if (port === undefined || token === undefined || !/^[\da-f]{64}$/.test(token))
    throw new EGpuError(EGpuErrorCode.MalformedData, 'the peer did not say where to probe it')
  const socket = connect({ host: link.address, port, localAddress: link.localAddress, noDelay: true })
  return begin(socket, { token, mode, count }, signal)
}

/** Shows the token once the socket is connected, and resolves to it. */
function begin(
  socket: Socket,
  { token, mode, count }: { readonly token: string; readonly mode: ProbeMode; readonly count: number },
  signal: AbortSignal,
): Promise<Socket> {
  const header = Buffer.alloc(headerBytes)
  header.write(token, 'hex')
  header.writeUInt8(mode, tokenBytes)
  header.writeUIntBE(count, tokenBytes + 1, 6)
  return new Promise((resolve, reject) => {
    const off = watch(socket, signal, reject)
    socket.once('connect', () => {
      off()
      socket.write(header)
      resolve(socket)
    })
  })
}

/** A probe that failed is not a link that is slow, so it never turns into a number. */
function watch(socket: Socket, signal: AbortSignal, reject: (error: unknown) => void): () => void {
  const fail = (cause: Error): void => {
    reject(new EGpuError(EGpuErrorCode.PeerLost, `the probe broke off: ${cause.message}`, { cause }))
  }
  const close = (): void => fail(new Error('the other end closed it'))
  const abort = (): void => {
    socket.destroy()
    reject(signal.reason)
  }
  socket.on('error', fail)
  socket.once('close', close)
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  return () => {
    socket.off('error', fail)
    socket.off('close', close)
    signal.removeEventListener('abort', abort)
  }
}

/** In microseconds. One message is under way at a time. */
function roundTrips(socket: Socket, samples: number, signal: AbortSignal): Promise<number[]> {
  return new Promise((resolve, reject) => {
    const message = Buffer.alloc(messageBytes)
    const times: number[] = []
    const startedAt = performance.now()
    let [round, arrived, sentAt] = [0, 0, 0n]
    const send = (): void => {
      sentAt = process.hrtime.bigint()
      socket.write(message)
    }
    watch(socket, signal, reject)
    socket.on('data', (chunk: Buffer) => {
      const now = process.hrtime.bigint()
      arrived += chunk.length
      if (arrived < messageBytes) return
      arrived = 0
      round += 1
      const isLate = performance.now() - startedAt > latencyBudgetMs
      if (round > warmUp || isLate) times.push(Number(now - sentAt) / 1_000)
      const isDone = times.length >= samples && times.length % samples === 0 && isConfirmed(times)
      if (isDone || (isLate && times.length >= fewestSamples)) resolve(times)
      else send()
    })
    send()
  })
}

/** Whether the shortest of some round trips is more than chance. */
export function isConfirmed(timesUs: readonly number[]): boolean {
  const minUs = Math.min(...timesUs)
  const limitUs = minUs + Math.max(confirmedWithin.leastUs, minUs * confirmedWithin.share)
  return timesUs.filter((timeUs) => timeUs <= limitUs).length >= Math.min(confirmations, timesUs.length)
}

function within(signal: AbortSignal | undefined): AbortSignal {
  return AbortSignal.any([AbortSignal.timeout(probeDeadlineMs), ...(signal === undefined ? [] : [signal])])
}
