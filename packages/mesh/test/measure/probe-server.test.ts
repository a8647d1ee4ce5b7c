import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { ProbeMode, ProbeServer, headerBytes, tokenBytes } from '../../src/measure/probe-server.ts'

const loopback = '127.0.0.1'

async function dial(port: number, from = loopback): Promise<Socket> {
  const socket = connect({ port, host: loopback, localAddress: from })
  socket.on('error', () => {})
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  return socket
}

function header(token: string, mode: number, count = 0): Buffer {
  const bytes = Buffer.alloc(headerBytes)
  bytes.write(token, 'hex')
  bytes.writeUInt8(mode, tokenBytes)
  bytes.writeUIntBE(count, tokenBytes + 1, 6)
  return bytes
}

/** One byte there and back. */
async function echoed(port: number, token: string): Promise<boolean> {
  const socket = await dial(port)
  socket.write(Buffer.concat([header(token, ProbeMode.Echo), Buffer.from('!')]))
  const [answer] = (await Promise.race([once(socket, 'data'), once(socket, 'close')])) as [unknown]
  return Buffer.isBuffer(answer) && answer.toString() === '!'
}

it('is there for a peer however many strangers have a connection open, from its address or from others', async () => {
  await using server = new ProbeServer()
  const port = await server.listen()
  const dialled = Array.from({ length: 300 }, (_, at) =>
    dial(port, at % 2 === 0 ? loopback : `127.0.0.${2 + (at % 20)}`),
  )
  const strangers = await Promise.all(dialled)
  expect(await echoed(port, server.grant(loopback) as string)).toBe(true)
  expect(strangers.length).toBe(300)
})

it('gives a peer a share of its probes, and the others theirs', async () => {
  await using server = new ProbeServer()
  const port = await server.listen()
  const greedy = Array.from({ length: 1_000 }, () => server.grant('127.0.0.9'))
  expect(greedy.filter((token) => token !== undefined).length).toBeLessThan(20)
  expect(await echoed(port, server.grant(loopback) as string)).toBe(true)
})

it('counts probes that are under way, and no more when they are over', async () => {
  await using server = new ProbeServer()
  const port = await server.listen()
  const running: Socket[] = []
  for (let token = server.grant(loopback); token !== undefined; token = server.grant(loopback)) {
    const socket = await dial(port)
    socket.write(Buffer.concat([header(token, ProbeMode.Echo), Buffer.from('!')]))
    await once(socket, 'data')
    running.push(socket)
    expect(running.length).toBeLessThan(20)
  }
  running[0]?.destroy()
  while (server.grant(loopback) === undefined) await new Promise((resolve) => setTimeout(resolve, 5))
})

it('keeps nothing for a peer that sends and does not read', async () => {
  await using server = new ProbeServer()
  const port = await server.listen()
  const socket = await dial(port)
  socket.pause()
  socket.write(header(server.grant(loopback) as string, ProbeMode.Echo))
  const piece = Buffer.alloc(2 ** 20)
  const before = process.memoryUsage().arrayBuffers
  // The kernel's buffers take some megabytes each way, and then it has to wait.
  let taken = 0
  const write = (error?: Error | null): void => {
    if (error === undefined || error === null) socket.write(piece, write)
    taken += 1
  }
  write()
  for (let seen = -1; seen !== taken;) {
    seen = taken
    await new Promise((resolve) => setTimeout(resolve, 500))
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 * 2 ** 20)
  }
})
