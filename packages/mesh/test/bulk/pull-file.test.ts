import { readFile, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { EGpuErrorCode } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { pullFile } from '../../src/bulk/pull-file.ts'
import { loopback, offerFile, randomFile, sha256, temporaryDirectory } from './helpers.ts'

describe.each([true, false])('a file pulled with encrypted: %s', (encrypted) => {
  it('arrives whole, and nothing else is left beside it', async () => {
    await using home = await temporaryDirectory()
    const bytes = await randomFile(join(home.path, 'a'), 1_000_003)
    await using sender = await offerFile(join(home.path, 'a'), { encrypted })
    const to = join(home.path, 'b')
    const report = await pullFile(sender.source, sender.ref, { to })
    expect(sha256(await readFile(to))).toBe(sha256(bytes))
    expect(report).toMatchObject({ byteLength: 1_000_003, reusedBytes: 0, bytes: 1_000_003, chunks: 16 })
    expect((await readdir(home.path)).sort()).toEqual(['a', 'b'])
  })

  it('may be empty', async () => {
    await using home = await temporaryDirectory()
    await randomFile(join(home.path, 'a'), 0)
    await using sender = await offerFile(join(home.path, 'a'), { encrypted })
    await pullFile(sender.source, sender.ref, { to: join(home.path, 'b') })
    expect((await stat(join(home.path, 'b'))).size).toBe(0)
  })
})

it('goes on where an attempt was cut: chunks that were here do not travel again', async () => {
  await using home = await temporaryDirectory()
  const bytes = await randomFile(join(home.path, 'a'), 40 * 65_536)
  await using sender = await offerFile(join(home.path, 'a'))
  const to = join(home.path, 'b')
  const cut = new AbortController()
  const { source } = sender
  const half = pullFile(
    {
      ...source,
      links: [loopback],
    },
    sender.ref,
    { to, signal: cut.signal },
  )
  const poll = setInterval(() => {
    if (sender.offer.sent.chunks >= 20) cut.abort(new Error('the cable is out'))
  }, 0)
  await expect(half).rejects.toThrow('the cable is out')
  clearInterval(poll)
  const report = await pullFile(source, sender.ref, { to })
  expect(sha256(await readFile(to))).toBe(sha256(bytes))
  expect(report.reusedBytes).toBeGreaterThan(0)
  expect(report.bytes + report.reusedBytes).toBe(bytes.byteLength)
  // Two manifests and 40 chunks, and at most the two that were under way.
  expect(sender.offer.sent.chunks).toBeLessThanOrEqual(2 + 40 + 2)
})

it('takes from an older version what did not change', async () => {
  await using home = await temporaryDirectory()
  const bytes = await randomFile(join(home.path, 'a'), 32 * 65_536)
  const older = Buffer.from(bytes)
  older[5 * 65_536 + 7]! ^= 1
  await writeFile(join(home.path, 'b'), older)
  await using sender = await offerFile(join(home.path, 'a'))
  const report = await pullFile(sender.source, sender.ref, { to: join(home.path, 'b') })
  expect(report).toMatchObject({ chunks: 1, bytes: 65_536 })
  expect(sha256(await readFile(join(home.path, 'b')))).toBe(sha256(bytes))
})

it('sends content that occurs many times once', async () => {
  await using home = await temporaryDirectory()
  const bytes = Buffer.alloc(50 * 65_536 + 5)
  await writeFile(join(home.path, 'a'), bytes)
  await using sender = await offerFile(join(home.path, 'a'))
  const report = await pullFile(sender.source, sender.ref, { to: join(home.path, 'b') })
  expect(report.chunks).toBe(2)
  expect((await readFile(join(home.path, 'b'))).equals(bytes)).toBe(true)
})

it('refuses a file larger than expected before its bytes move', async () => {
  await using home = await temporaryDirectory()
  await randomFile(join(home.path, 'a'), 1_000_000)
  await using sender = await offerFile(join(home.path, 'a'))
  const to = join(home.path, 'b')
  await expect(pullFile(sender.source, sender.ref, { to, mostBytes: 999_999 })).rejects.toMatchObject({
    code: EGpuErrorCode.MalformedData,
  })
  expect(sender.offer.sent.chunks).toBe(1)
})
