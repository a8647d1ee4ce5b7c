import { readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { EGpuErrorCode } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { manifestRef } from '../src/bulk/manifest.ts'
import { BulkServer } from '../src/bulk/server.ts'
import { memorySource } from '../src/bulk/source.ts'
import { receiveFiles, sendFile } from '../src/file-transfer.ts'
import type { ReceivedFile } from '../src/file-transfer.ts'
import type { CableLink } from '../src/links/cable-link.ts'
import { randomFile } from './bulk/helpers.ts'
import { folder } from './helpers/folder.ts'
import { pair, until } from './helpers/planes.ts'

const anyCable: CableLink = {
  key: 'cable',
  port: 'domain0/port1',
  localUuid: undefined,
  remoteUuid: undefined,
  remoteName: undefined,
  hubs: 0,
  interfaceName: 'lo',
  mtu: undefined,
  sticker: undefined,
  trained: { receive: undefined, transmit: undefined },
  networkService: undefined,
}

describe('a file that is sent to a peer', () => {
  it('travels over all cables at once', async () => {
    // Each pair of loopback addresses is a cable of its own.
    await using sides = await pair({ cableOf: () => anyCable }, { cableOf: () => anyCable })
    const { a, b } = sides
    for (const host of ['127.0.0.1', '127.0.0.2']) await a.plane.dial({ host, port: b.port })
    await until(() => b.plane.connections().length === 2)
    const [from, to] = [folder(), folder()]
    const received: ReceivedFile[] = []
    receiveFiles(b.plane, to, (file) => received.push(file))
    // One link may have all of a file before the other is up; not of one file after the other.
    for (let round = 0; Object.keys(received.at(-1)?.bytesPerLink ?? {}).length < 2; round += 1) {
      const name = `big-${round}`
      const bytes = await randomFile(join(from, name), 24 * 2 ** 20)
      expect(await sendFile(a.plane, b.plane.nodeId, join(from, name))).toBe(bytes.byteLength)
      expect(readFileSync(join(to, name)).equals(bytes)).toBe(true)
      const { bytesPerLink = {} } = received.at(-1) ?? {}
      expect(Object.values(bytesPerLink).reduce((sum, count) => sum + count, 0)).toBe(bytes.byteLength)
    }
  })

  it('is refused where one of its name is already, and where nobody receives', async () => {
    await using sides = await pair()
    const { a, b } = sides
    await a.plane.dial({ host: '127.0.0.1', port: b.port })
    const [from, to] = [join(folder(), 'file'), folder()]
    await randomFile(from, 1_000)
    const refused = { code: EGpuErrorCode.PeerRefused }
    await expect(sendFile(a.plane, b.plane.nodeId, from)).rejects.toMatchObject(refused)
    const stop = receiveFiles(b.plane, to, () => {})
    await mkdir(join(to, 'file'))
    await expect(sendFile(a.plane, b.plane.nodeId, from)).rejects.toMatchObject({
      ...refused,
      message: 'the file is refused: there is a file already',
    })
    stop()
    await expect(sendFile(a.plane, b.plane.nodeId, from)).rejects.toMatchObject(refused)
  })

  it('has no name that leads out of the folder, and names nothing hidden', async () => {
    await using sides = await pair()
    const { a, b } = sides
    const connection = await a.plane.dial({ host: '127.0.0.1', port: b.port })
    receiveFiles(b.plane, folder(), () => {})
    const id = 'a'.repeat(64)
    for (const name of [
      '../up',
      '/etc/passwd',
      'a/b',
      'a\\b',
      '.bashrc',
      'c:x',
      '',
      'x\u202Egnp',
      ' ',
      '\u200B',
      '\uD800',
      '-rf',
      '~',
      7,
      null,
    ]) {
      const body = { name, id, manifestBytes: 10, port: 1, certificate: id }
      await expect(connection.request('file.take', body)).rejects.toMatchObject({
        code: EGpuErrorCode.PeerRefused,
        message: 'the file is refused: that is no plain file name',
      })
    }
    const body = { name: 'x'.repeat(231), id, manifestBytes: 10, port: 1, certificate: id }
    await expect(connection.request('file.take', body)).rejects.toThrow('its name is longer than 230 bytes')
    await expect(connection.request('file.link', { id: '../x' })).rejects.toMatchObject({
      code: EGpuErrorCode.PeerRefused,
    })
  })

  it('cannot be described by nothing, nor by what fits in no memory', async () => {
    await using sides = await pair()
    const connection = await sides.a.plane.dial({ host: '127.0.0.1', port: sides.b.port })
    receiveFiles(sides.b.plane, folder(), () => {})
    const id = 'a'.repeat(64)
    for (const manifestBytes of [0, -1, 0.5, 2 ** 26 + 1, 2 ** 40, '10', undefined]) {
      const body = { name: 'file', id, manifestBytes, port: 1, certificate: id }
      await expect(connection.request('file.take', body)).rejects.toMatchObject({
        code: EGpuErrorCode.PeerRefused,
        message: 'the file is refused: what is offered is not complete',
      })
    }
  })

  it('is refused before it comes when the disk has no room, however little of it would travel', async () => {
    await using sides = await pair()
    const { a, b } = sides
    const connection = await a.plane.dial({ host: '127.0.0.1', port: b.port })
    const to = folder()
    receiveFiles(b.plane, to, () => {})
    const [chunkBytes, count] = [2 ** 26, 2 ** 16]
    // 4 TiB that are one chunk over and over.
    const chunks = Array.from({ length: count }, () => 'a'.repeat(64))
    const encoded = Buffer.from(JSON.stringify({ byteLength: chunkBytes * count, chunkBytes, chunks }))
    const ref = manifestRef(encoded)
    await using server = await BulkServer.listen()
    await using offer = server.offer(memorySource(ref, encoded))
    connection.handle(`file.ticket ${ref.id}`, () => offer.ticket())
    const body = { name: 'bomb', id: ref.id, manifestBytes: ref.byteLength, ...server.address }
    await expect(connection.request('file.take', body)).rejects.toThrow(/needs 4398046511104 more bytes/)
    expect(offer.sent.chunks).toBe(1)
  })

  it('is written once when two of one name come at once', async () => {
    await using sides = await pair()
    const { a, b } = sides
    await a.plane.dial({ host: '127.0.0.1', port: b.port })
    const [one, other, to] = [folder(), folder(), folder()]
    const bytes = await randomFile(join(one, 'file'), 3_000_000)
    await randomFile(join(other, 'file'), 3_000_000)
    receiveFiles(b.plane, to, () => {})
    // Reading and hashing go first, so either may be the earlier.
    const first = sendFile(a.plane, b.plane.nodeId, join(one, 'file'))
    const outcomes = await Promise.allSettled([first, sendFile(a.plane, b.plane.nodeId, join(other, 'file'))])
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    const isFirst = outcomes[0].status === 'fulfilled'
    expect(readFileSync(join(to, 'file')).equals(bytes)).toBe(isFirst)
  })
})
