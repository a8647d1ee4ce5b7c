import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import { EGpuErrorCode } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { decodeManifest } from '../../src/bulk/manifest.ts'
import { pullFile } from '../../src/bulk/pull-file.ts'
import { pull } from '../../src/bulk/pull.ts'
import type { ChunkSource } from '../../src/bulk/source.ts'
import { AnswerKind, head, helloBytes, withReason } from '../../src/bulk/wire.ts'
import { loopback, offerFile, randomFile, sha256, temporaryDirectory } from './helpers.ts'

const one = { id: sha256(Buffer.alloc(1_000, 7)), byteLength: 1_000 }

/** A sender that answers a hello with whatever it likes. */
async function liar(answer: (socket: Socket) => void): Promise<AsyncDisposable & { readonly port: number }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    let seen = 0
    socket.on('data', (bytes) => {
      if (seen < helloBytes && seen + bytes.byteLength >= helloBytes) answer(socket)
      seen += bytes.byteLength
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

async function pullFrom(port: number): Promise<unknown> {
  const source = { address: { port, certificate: undefined }, links: [loopback], ticket: async () => '0'.repeat(64) }
  let taken = 0
  const error = await pull(source, [one], async () => void (taken += 1), { stallMs: 300, patienceMs: 900 }).then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(taken).toBe(0)
  return error
}

describe('a sender that', () => {
  it.each([
    ['speaks another protocol', Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')],
    ['sends a longer chunk', Buffer.concat([head(AnswerKind.Welcome, 0), head(AnswerKind.Chunk, 2 ** 31)])],
    ['sends a shorter chunk', Buffer.concat([head(AnswerKind.Welcome, 0), head(AnswerKind.Chunk, 999)])],
    ['sends an answer of no kind', Buffer.concat([head(AnswerKind.Welcome, 0), head(9 as AnswerKind, 4)])],
    ['gives an endless reason', head(AnswerKind.Refused, 2 ** 32 - 1)],
  ])('%s is left with EGPU_MALFORMED_DATA', async (_, bytes) => {
    await using server = await liar((socket) => socket.write(bytes))
    expect(await pullFrom(server.port)).toMatchObject({ code: EGpuErrorCode.MalformedData })
  })

  it('sends other bytes than it announced is found out', async () => {
    await using server = await liar((socket) => {
      socket.write(head(AnswerKind.Welcome, 0))
      socket.on('data', () => socket.write(Buffer.concat([head(AnswerKind.Chunk, 1_000), Buffer.alloc(1_000, 8)])))
    })
    expect(await pullFrom(server.port)).toMatchObject({
      code: EGpuErrorCode.MalformedData,
      message: expect.stringContaining(one.id) as string,
    })
  })

  it('refuses is quoted without its control characters', async () => {
    await using server = await liar((socket) => socket.end(withReason(AnswerKind.Refused, 'no\u001b[2J\n way')))
    expect(await pullFrom(server.port)).toMatchObject({
      code: EGpuErrorCode.PermissionDenied,
      message: 'the sender refused: no[2J way',
    })
  })

  it('says nothing is given up after a while', async () => {
    await using server = await liar(() => {})
    expect(await pullFrom(server.port)).toMatchObject({ code: EGpuErrorCode.PeerLost })
  })

  it('is not the one whose certificate was announced gets no token', async () => {
    await using home = await temporaryDirectory()
    await randomFile(join(home.path, 'a'), 10)
    await using sender = await offerFile(join(home.path, 'a'))
    const { source, ref } = sender
    const other = { ...source, address: { ...source.address, certificate: 'ab'.repeat(32) } }
    await expect(pullFile(other, ref, { to: join(home.path, 'b') })).rejects.toMatchObject({
      code: EGpuErrorCode.PermissionDenied,
      message: expect.stringContaining('not the sender that was announced') as string,
    })
    expect(sender.offer.sent.bytes).toBe(0)
  })

  it('no longer has what it offered says so', async () => {
    await using home = await temporaryDirectory()
    await randomFile(join(home.path, 'a'), 300_000)
    const broken = (source: ChunkSource): ChunkSource => ({
      ...source,
      lengthOf: (id) => source.lengthOf(id),
      read: (id, into) =>
        into.byteLength === 65_536 ? Promise.reject(new Error('the disk is gone')) : source.read(id, into),
    })
    await using sender = await offerFile(join(home.path, 'a'), { wrap: broken })
    await expect(pullFile(sender.source, sender.ref, { to: join(home.path, 'b') })).rejects.toMatchObject({
      code: EGpuErrorCode.PeerRefused,
      message: expect.stringContaining('the disk is gone') as string,
    })
    expect(await readdir(home.path)).not.toContain('b')
  })
})

describe('a manifest', () => {
  const id = 'a'.repeat(64)
  it.each([
    ['is no JSON', 'nope'],
    ['names chunks by paths', JSON.stringify({ byteLength: 1, chunkBytes: 1, chunks: ['../../etc/passwd'] })],
    ['has a chunk too many', JSON.stringify({ byteLength: 1, chunkBytes: 1, chunks: [id, id] })],
    ['has chunks that fit in no memory', JSON.stringify({ byteLength: 1, chunkBytes: 2 ** 40, chunks: [id] })],
    ['has no length', JSON.stringify({ byteLength: -1, chunkBytes: 1, chunks: [] })],
    ['gives equal content two lengths', JSON.stringify({ byteLength: 3, chunkBytes: 2, chunks: [id, id] })],
    ['is null', 'null'],
  ])('that %s is refused with EGPU_MALFORMED_DATA', (_, text) => {
    expect(() => decodeManifest(Buffer.from(text))).toThrow(
      expect.objectContaining({ code: EGpuErrorCode.MalformedData }) as Error,
    )
  })
})
