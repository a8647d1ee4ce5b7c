import type { FileHandle } from 'node:fs/promises'
import { asCount, asShape } from '../shape.ts'
import { readFully, writeFully } from './file-bytes.ts'
import type { PlacedChunk } from './manifest.ts'
import type { Beginnings } from './pull.ts'

/** There is one for every connection that was cut; a longer note was not written here. */
const mostNoteBytes = 2 ** 16

/**
 * Chunks of an unfinished file that came in part. What came lies where the chunk belongs; a note behind the end of the file
 * says how much that is. Nothing here is believed: a chunk is held against its name once it is whole.
 */
export class PartialChunks implements Beginnings<PlacedChunk> {
  readonly #file: FileHandle
  readonly #fileBytes: number
  readonly #known: Map<string, Buffer>
  readonly #note = new Map<string, number>()

  private constructor(file: FileHandle, fileBytes: number, known: Map<string, Buffer>) {
    this.#file = file
    this.#fileBytes = fileBytes
    this.#known = known
    for (const [id, { byteLength }] of known) this.#note.set(id, byteLength)
  }

  /** Reads what is noted of the chunks that are still missing. */
  static async open(file: FileHandle, fileBytes: number, missing: Iterable<PlacedChunk>): Promise<PartialChunks> {
    const note = await readNote(file, fileBytes)
    const known = new Map<string, Buffer>()
    for (const { id, offset, byteLength } of note === undefined ? [] : missing) {
      const filled = asCount(note?.[id], byteLength - 1, 1)
      if (filled === undefined) continue
      const bytes = Buffer.allocUnsafeSlow(filled)
      await readFully(file, bytes, offset)
      known.set(id, bytes)
    }
    return new PartialChunks(file, fileBytes, known)
  }

  recall({ id }: PlacedChunk, buffer: Buffer): number {
    const bytes = this.#known.get(id)
    if (bytes === undefined) return 0
    buffer.set(bytes)
    // From now on the pull knows better: kept again, whole, or found to be wrong.
    this.#known.delete(id)
    this.#note.delete(id)
    return bytes.byteLength
  }

  async keep({ id, offset }: PlacedChunk, bytes: Buffer): Promise<void> {
    await writeFully(this.#file, bytes, offset)
    this.#note.set(id, bytes.byteLength)
  }

  async writeNote(): Promise<void> {
    const note = Buffer.from(JSON.stringify(Object.fromEntries(this.#note)))
    await this.#file.truncate(this.#fileBytes)
    if (this.#note.size > 0) await writeFully(this.#file, note, this.#fileBytes)
  }
}

/** How many bytes there are of each chunk, by its id; `undefined` without a note that can be read. */
async function readNote(file: FileHandle, fileBytes: number): Promise<ReturnType<typeof asShape>> {
  const { size } = await file.stat()
  const byteLength = size - fileBytes
  if (byteLength < 1 || byteLength > mostNoteBytes) return undefined
  const bytes = Buffer.alloc(byteLength)
  await readFully(file, bytes, fileBytes)
  try {
    return asShape(JSON.parse(bytes.toString()))
  } catch {
    return undefined
  }
}
