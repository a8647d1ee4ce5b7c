import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import type { PeerConnection } from '../../src/control/peer-connection.ts'
import { measureLatency, measureThroughput } from '../../src/measure/probe.ts'
import { headerBytes, ProbeMode, ProbeServer, tokenBytes } from '../../src/measure/probe-server.ts'

const loopback = '127.0.0.1'

/** A peer whose probes are answered at a port of this machine. */
function peerAt(port: number, token = (): string => '0'.repeat(2 * tokenBytes)): PeerConnection {
  const link = { id: 'link', kind: 'network', interfaceName: 'lo', address: loopback, localAddress: loopback } as const
  return { link, request: async () => ({ port, token: token() }) } as Partial<PeerConnection> as PeerConnection
}

it.each([1, 100, 65_536, 2 ** 20])('is a number above 0 also for %i bytes', async (bytes) => {
  await using server = new ProbeServer()
  const peer = peerAt(await server.listen(), () => server.grant(loopback) as string)
  const { receiveGbps, transmitGbps } = await measureThroughput(peer, { bytes })
  for (const gbps of [receiveGbps, transmitGbps]) {
    expect(gbps).toBeGreaterThan(0)
    expect(gbps).toBeLessThan(10_000)
  }
})

it('of a link too slow for all of the bytes is known after some of them, and no more are sent than it carries', async () => {
  const pieceBytes = 1_000
  let taken = 0
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (header: Buffer) => {
      const count = header.readUIntBE(tokenBytes + 1, 6)
      if (header.readUInt8(tokenBytes) === ProbeMode.Send) {
        const timer = setInterval(() => socket.write(Buffer.alloc(pieceBytes)), 10)
        socket.once('close', () => clearInterval(timer))
        return
      }
      taken = header.length - headerBytes
      socket.on('data', (bytes) => {
        taken += bytes.length
        if (taken === count) socket.end(Buffer.from([1]))
      })
    })
  })
  server.listen(0, loopback)
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { receiveGbps } = await measureThroughput(peerAt((server.address() as AddressInfo).port), { bytes: 2 ** 30 })
  // 800 kb/s at most, however late its timers are.
  expect(receiveGbps).toBeLessThanOrEqual(0.0009)
  expect(taken).toBeLessThan(2 ** 20)
})

it('of a link that carries nothing ends with the reason of whoever gives up', async () => {
  const server = createServer((socket) => void socket.on('error', () => {})).listen(0, loopback)
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const stop = new AbortController()
  const reason = new Error('given up')
  for (const measure of [measureLatency, measureThroughput]) {
    const measured = measure(peerAt((server.address() as AddressInfo).port), { signal: stop.signal })
    setTimeout(() => stop.abort(reason), 50)
    await expect(measured).rejects.toBe(reason)
  }
})
