import { spawnSync } from 'node:child_process'
import { createWriteStream, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readRecording } from '../src/recording-file.ts'

const folder = mkdtempSync(join(tmpdir(), 'egpu-recording-file-'))
const pipe = join(folder, 'pipe')
const never = new AbortController().signal

beforeAll(() => expect(spawnSync('mkfifo', [pipe]).status).toBe(0))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('what --from reads', () => {
  it('is waited for at a pipe that nobody writes to, until the signal fires', async () => {
    const stop = new AbortController()
    const reading = readRecording(pipe, stop.signal)
    // The event loop goes on meanwhile, or this timer would never come.
    setTimeout(() => stop.abort(new Error('enough')), 50)
    await expect(reading).rejects.toThrow('enough')
  })

  it('is all that is written to a pipe', async () => {
    const reading = readRecording(pipe, never)
    const writer = createWriteStream(pipe)
    writer.write('one ')
    writer.end('two')
    expect((await reading).toString()).toBe('one two')
  })

  it('may have 256 MB and not more, however it comes', async () => {
    const large = join(folder, 'large')
    writeFileSync(large, '')
    truncateSync(large, 3_000_000_000)
    await expect(readRecording(large, never)).rejects.toMatchObject({
      code: 'EGPU_MALFORMED_DATA',
      message: `${large} cannot be read: it has 3.00 GB, more than the 256 MB that a recording may have`,
    })
    const reading = readRecording(pipe, never, 5_000)
    const writer = createWriteStream(pipe)
    // Nobody reads on, and it is told so.
    writer.on('error', () => {})
    writer.end(Buffer.alloc(1_000_000))
    await expect(reading).rejects.toMatchObject({
      message: `${pipe} cannot be read: it has more than the 5.00 kB that a recording may have`,
    })
  })

  it.each(['/dev/zero', '/dev/full'])('is no device: %s', async (device) => {
    await expect(readRecording(device, never)).rejects.toMatchObject({
      code: 'EGPU_MALFORMED_DATA',
      message: `${device} cannot be read: it is a device, no file`,
    })
  })

  it('is read from nothing that is not there', async () => {
    const missing = join(folder, 'missing')
    await expect(readRecording(missing, never)).rejects.toMatchObject({ code: 'ENOENT', path: missing })
    await expect(readRecording(folder, never)).rejects.toMatchObject({ code: 'EISDIR', path: folder })
  })
})
