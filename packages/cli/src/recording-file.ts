import { close, constants, createReadStream, fstat, open } from 'node:fs'
import { Socket } from 'node:net'
import { addAbortSignal, type Readable } from 'node:stream'
import { promisify } from 'node:util'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { bytesText } from './output/bytes-text.ts'

/** Far more than any machine fills: a Mac's whole registry is some 20 MB. */
const recordingBytes = 256e6

/** What `--from -` reads. */
export const standardInput = '-'

/**
 * All of a file, of a pipe or, as `-`, of standard input. Nothing blocks: a pipe that nobody writes to is waited for
 * until `signal` fires. `EGPU_MALFORMED_DATA` for a device, which might never end, and for more than `mostBytes`.
 */
export async function readRecording(
  file: string,
  signal: AbortSignal,
  mostBytes: number = recordingBytes,
): Promise<Buffer> {
  const chunks: Buffer[] = []
  let byteLength = 0
  try {
    const source = file === standardInput ? process.stdin : await streamOf(file, mostBytes)
    for await (const chunk of addAbortSignal(signal, source)) {
      chunks.push(chunk as Buffer)
      byteLength += (chunk as Buffer).byteLength
      if (byteLength > mostBytes) throw refused(file, tooLarge('more', mostBytes))
    }
  } catch (error) {
    signal.throwIfAborted()
    if (EGpuError.is(error)) throw error
    // Node names no path when it is a directory.
    throw Object.assign(error as NodeJS.ErrnoException, { path: nameOf(file) })
  }
  return Buffer.concat(chunks)
}

async function streamOf(file: string, mostBytes: number): Promise<Readable> {
  // Without O_NONBLOCK, which Windows does not have, opening a pipe waits for who writes to it, and no signal ends that.
  const fd = await promisify(open)(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
  const stats = await promisify(fstat)(fd)
  if (stats.isFIFO()) return new Socket({ fd, readable: true, writable: false })
  const isDevice = stats.isCharacterDevice() || stats.isBlockDevice()
  if (!isDevice && stats.size <= mostBytes) return createReadStream(file, { fd })
  await promisify(close)(fd)
  throw refused(file, isDevice ? 'it is a device, no file' : tooLarge(`${bytesText(stats.size)}, more`, mostBytes))
}

function refused(file: string, why: string): EGpuError {
  return new EGpuError(EGpuErrorCode.MalformedData, `${nameOf(file)} cannot be read: ${why}`)
}

const tooLarge = (size: string, mostBytes: number): string =>
  `it has ${size} than the ${bytesText(mostBytes)} that a recording may have`

/** What to call it when something is said of it. */
export function nameOf(file: string): string {
  return file === standardInput ? 'standard input' : file
}
