import { connect, type Socket } from 'node:net'
import { EGpuError, EGpuErrorCode, type AbortOptions } from '@egpu/core'
import type { PeerConnection } from '../control/peer-connection.ts'
import { within } from '../deadline.ts'
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
/** For one probe, of a link that answers at all. */
const probeDeadlineMs = 10_000
/** A slow link need not carry all of the bytes to show how slow it is. */
const throughputBudgetMs = 3_000
const fewestBytes = 64 * 1024
const defaultBudgetBytes = 32 * 1024 * 1024

/** Round trips of small messages over plain TCP with TCP_NODELAY, over this very link. */
export async function measureLatency(
  connection: PeerConnection,
  { signal, samples = latencySamples }: LatencyOptions = {},
): Promise<Latency> {
  return inTime(connection, signal, async (deadline) =>
    roundTripsOver(await openProbe(connection, ProbeMode.Echo, 0, deadline), samples, deadline),
  )
}

/**
 * What a round trip takes when there is no link and nobody to wake: both ends are this process, over loopback. The same work
 * is in every round trip to a peer, half of it here and half there.
 */
export async function measureSelf(server: ProbeServer, { signal }: AbortOptions = {}): Promise<Latency> {
  const deadline = within(probeDeadlineMs, signal)
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

/**
 * Takes and sends at most `bytes` each way, or as many as the link carries in about three seconds, and says how fast the later
 * three quarters went, without the start of the connection. `EGPU_TIMEOUT` for a link on which even that takes too long.
 */
export async function measureThroughput(
  connection: PeerConnection,
  { signal, bytes = defaultBudgetBytes }: AbortOptions & { readonly bytes?: number | undefined } = {},
): Promise<Throughput> {
  const receiveGbps = await inTime(connection, signal, (deadline) => receive(connection, bytes, deadline))
  // Only the other end knows how much has arrived, and says it once all has: so no more than is known to arrive in time.
  const likely = Math.round((receiveGbps * 1e6 * throughputBudgetMs) / 8)
  const sent = Math.min(bytes, Math.max(fewestBytes, likely))
  const transmitGbps = await inTime(connection, signal, (deadline) => transmit(connection, sent, deadline))
  return { receiveGbps, transmitGbps }
}

async function receive(connection: PeerConnection, bytes: number, signal: AbortSignal): Promise<number> {
  const socket = await openProbe(connection, ProbeMode.Send, bytes, signal)
  try {
    return await new Promise<number>((resolve, reject) => {
      let got = 0
      const startedAt = performance.now()
      let from = { bytes: 0, at: startedAt }
      watch(socket, signal, reject)
      socket.on('data', (chunk: Buffer) => {
        got += chunk.length
        const now = performance.now()
        const share = Math.max(got / bytes, (now - startedAt) / throughputBudgetMs)
        if (share >= 1) resolve(rate(got - from.bytes, now - from.at))
        else if (share >= 1 / 4 && from.bytes === 0) from = { bytes: got, at: now }
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
      let from = { left: bytes, at: performance.now() }
      watch(socket, signal, reject)
      socket.once('data', () => resolve(rate(from.left, performance.now() - from.at)))
      const go = (): void => {
        while (left > 0) {
          if (from.left === bytes && left <= (bytes * 3) / 4) from = { left, at: performance.now() }
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

/** A link that is too slow to be measured is said to be; the caller's own signal stays the caller's. */
async function inTime<T>(
  { link }: PeerConnection,
  signal: AbortSignal | undefined,
  probe: (deadline: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = within(probeDeadlineMs, signal)
  try {
    return await probe(deadline)
  } catch (error) {
    if (!deadline.aborted || signal?.aborted === true) throw error
    const message = `the link ${link.interfaceName ?? link.address} could not be measured within ${probeDeadlineMs / 1_000} s`
    throw new EGpuError(EGpuErrorCode.Timeout, message, { cause: error })
  }
}
