import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { EGpuErrorCode } from '@egpu/core'
import { expect, it } from 'vitest'
import { pullFile, pullManifest } from '../../src/bulk/pull-file.ts'
import type { ChunkSource } from '../../src/bulk/source.ts'
import { AnswerKind, bulkVersion, dialectOf, encodeRequest, headBytes } from '../../src/bulk/wire.ts'
import { offerFile, randomFile, temporaryDirectory } from './helpers.ts'

async function dial(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

/** Everything a socket says until its end. */
async function said(socket: Socket): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of socket) pieces.push(piece as Buffer)
  return Buffer.concat(pieces)
}

const dialect = dialectOf(bulkVersion)
const hello = (token: string): Buffer => Buffer.concat([dialect.magic, Buffer.from(token, 'hex')])

it('takes each token once', async () => {
  await using home = await temporaryDirectory()
  await randomFile(join(home.path, 'a'), 10)
  await using sender = await offerFile(join(home.path, 'a'))
  const token = sender.offer.ticket()
  const again = { ...sender.source, ticket: async () => token }
  await pullManifest(again, sender.ref)
  await expect(pullManifest(again, sender.ref)).rejects.toMatchObject({
    code: EGpuErrorCode.PermissionDenied,
    message: expect.stringContaining('used already') as string,
  })
})

it('keeps the newest tokens of an offer, however many are asked for', async () => {
  await using home = await temporaryDirectory()
  await randomFile(join(home.path, 'a'), 10)
  await using sender = await offerFile(join(home.path, 'a'))
  const tokens = Array.from({ length: 66 }, () => sender.offer.ticket())
  const by = (place: number): typeof sender.source => ({
    ...sender.source,
    ticket: async () => tokens[place] as string,
  })
  await expect(pullManifest(by(1), sender.ref)).rejects.toMatchObject({ code: EGpuErrorCode.PermissionDenied })
  await pullManifest(by(2), sender.ref)
  await pullManifest(by(65), sender.ref)
})

it('takes no token of an offer that was withdrawn, and none that it never gave', async () => {
  await using home = await temporaryDirectory()
  await randomFile(join(home.path, 'a'), 10)
  await using sender = await offerFile(join(home.path, 'a'), { encrypted: false })
  const token = sender.offer.ticket()
  await sender.offer[Symbol.asyncDispose]()
  for (const bad of [token, 'ff'.repeat(32)]) {
    const socket = await dial(sender.server.address.port)
    socket.write(hello(bad))
    const answer = await said(socket)
    expect(answer.readUInt32BE(0)).toBe(AnswerKind.Refused)
    expect(answer.subarray(headBytes).toString()).toContain('unknown')
  }
  expect(() => sender.offer.ticket()).toThrow(expect.objectContaining({ code: EGpuErrorCode.Closed }) as Error)
})

it('does nothing for who speaks another protocol, byte by byte or in a flood, and goes on serving', async () => {
  await using home = await temporaryDirectory()
  await randomFile(join(home.path, 'a'), 100_000)
  await using sender = await offerFile(join(home.path, 'a'), { encrypted: false, helloMs: 300 })
  const { port } = sender.server.address
  const flood = await dial(port)
  flood.write(Buffer.alloc(2 ** 20, 0x41))
  expect((await said(flood)).readUInt32BE(0)).toBe(AnswerKind.Refused)
  const loris = await dial(port)
  const drip = setInterval(() => loris.write('E'), 50)
  expect((await said(loris)).byteLength).toBe(0)
  clearInterval(drip)
  const idle = await Promise.all(Array.from({ length: 100 }, () => dial(port)))
  await pullFile(sender.source, sender.ref, { to: join(home.path, 'b') })
  await Promise.all(idle.map(said))
})

it('gives a token holder only what the offer has, whatever the name', async () => {
  await using home = await temporaryDirectory()
  await randomFile(join(home.path, 'a'), 10)
  await using sender = await offerFile(join(home.path, 'a'), { encrypted: false, idleMs: 500 })
  const socket = await dial(sender.server.address.port)
  socket.write(hello(sender.offer.ticket()))
  socket.write(Buffer.from('../../../../etc/passwd'.padEnd(dialect.requestBytes, '\0')))
  const answer = await said(socket)
  expect(answer.readUInt32BE(headBytes)).toBe(AnswerKind.NoChunk)
  expect(answer.toString('latin1')).toContain('is no part of this offer')
  expect(sender.offer.sent.bytes).toBe(0)
})

it('has nothing from behind the end of a chunk', async () => {
  await using home = await temporaryDirectory()
  await randomFile(join(home.path, 'a'), 10)
  await using sender = await offerFile(join(home.path, 'a'), { encrypted: false, idleMs: 500 })
  const { id, byteLength } = sender.ref
  const socket = await dial(sender.server.address.port)
  socket.write(hello(sender.offer.ticket()))
  socket.write(encodeRequest(dialect, { id, from: byteLength }))
  socket.write(encodeRequest(dialect, { id, from: 2 ** 32 - 1 }))
  const answer = await said(socket)
  expect(answer.readUInt32BE(headBytes)).toBe(AnswerKind.NoChunk)
  expect(answer.toString('latin1').match(/none from byte/g)).toHaveLength(2)
  expect(sender.offer.sent.bytes).toBe(0)
})

it('waits for no receiver that asks and does not read', async () => {
  await using home = await temporaryDirectory()
  await randomFile(join(home.path, 'a'), 2 ** 24)
  await using sender = await offerFile(join(home.path, 'a'), { encrypted: false, idleMs: 300, chunkBytes: 2 ** 24 })
  const socket = await dial(sender.server.address.port)
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.pause()
  const manifest = await pullManifest(sender.source, sender.ref)
  socket.write(hello(sender.offer.ticket()))
  const request = encodeRequest(dialect, { id: manifest.chunks[0] as string, from: 0 })
  for (let i = 0; i < 10_000; i += 1) socket.write(request)
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  socket.resume()
  await closed
  // It had asked for 160 GB.
  expect(sender.offer.sent.chunks).toBeLessThan(4)
})

it('closing it ends the transfers under way, and twice is fine', async () => {
  await using home = await temporaryDirectory()
  await randomFile(join(home.path, 'a'), 2 ** 22)
  await using sender = await offerFile(join(home.path, 'a'), { encrypted: false })
  const socket = await dial(sender.server.address.port)
  socket.write(hello(sender.offer.ticket()))
  await once(socket, 'data')
  await sender.server.close()
  await sender.server.close()
  await said(socket)
})

it('closing it closes what is offered, also when every token was used', async () => {
  await using home = await temporaryDirectory()
  await randomFile(join(home.path, 'a'), 10)
  let closed = 0
  const counted = (source: ChunkSource): ChunkSource => ({
    ...source,
    async [Symbol.asyncDispose]() {
      closed += 1
      await source[Symbol.asyncDispose]()
    },
  })
  await using sender = await offerFile(join(home.path, 'a'), { wrap: counted })
  await pullManifest(sender.source, sender.ref)
  await sender.server.close()
  expect(closed).toBe(1)
})
