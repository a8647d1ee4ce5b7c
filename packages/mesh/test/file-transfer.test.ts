import { readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { EGpuErrorCode } from '@egpu/core'
import { describe, expect, it } from 'vitest'
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
    for (const name of ['../up', '/etc/passwd', 'a/b', 'a\\b', '.bashrc', 'c:x', '', 'x\u202Egnp', 7, null]) {
      const body = { name, id, manifestBytes: 10, port: 1, certificate: id }
      await expect(connection.request('file.take', body)).rejects.toMatchObject({
        code: EGpuErrorCode.PeerRefused,
        message: 'the file is refused: that is no plain file name',
      })
    }
    await expect(connection.request('file.link', { id: '../x' })).rejects.toMatchObject({
      code: EGpuErrorCode.PeerRefused,
    })
  })
})
