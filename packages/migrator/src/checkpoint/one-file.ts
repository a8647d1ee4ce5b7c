import { EGpuError, EGpuErrorCode, systemClock } from '@egpu/core'
import type { AbortOptions, SavedState, StatePart } from '@egpu/core'
import { withDeadline } from '../deadline.ts'
import { messageOf } from '../failure.ts'
import { parseForeign } from './foreign-json.ts'
import { PartTally } from './part-tally.ts'
import type { CheckpointRecord, CheckpointStore } from './store.ts'

/**
 * A checkpoint as one stream: the magic and version, a head (JSON), then pieces, each with its length, its SHA-256 and its
 * bytes, and at the end a piece of no length whose SHA-256 is that of all the SHA-256s before it.
 */
const magic = new TextEncoder().encode('EGPUCKP1')

/** A head describes parts by name; more is no head. */
const mostHeadBytes = 2 ** 24
const mostPieceBytes = 2 ** 26
const pieceBytes = 2 ** 20

/** The SHA-256 of each is kept to the end; so many pieces of the size that is written make up four terabytes. */
const mostPieces = 2 ** 22
const digestBytes = 32

interface Head {
  readonly workloadId: string
  readonly progress: number
  readonly parts: readonly StatePart[]
}

/** Everything of a checkpoint as one file's bytes, to be kept elsewhere or sent to somebody. */
export async function* exportCheckpoint(
  workloadId: string,
  state: SavedState,
  { signal }: AbortOptions = {},
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const { progress, parts } = state
  const root = new Digests()
  yield magic
  yield* piece(new TextEncoder().encode(JSON.stringify({ workloadId, progress, parts } satisfies Head)), root)
  for (const { name } of parts) {
    for await (const bytes of inPieces(state.read(name, { signal, transient: true }))) yield* piece(bytes, root)
  }
  yield lengthOf(0)
  yield await root.digest()
}

/**
 * Writes an exported checkpoint, whole or in pieces, into a store as the workload's newest. Every byte is checked before it
 * is committed: rejects with `EGPU_CHECKPOINT_CORRUPT` for anything but a whole export, with `EGPU_CHECKPOINT_FAILED` where
 * it cannot be read or the store takes no workload of its name, and nothing is left of it then.
 */
export async function importCheckpoint(
  store: CheckpointStore,
  source: Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  { signal }: AbortOptions = {},
): Promise<CheckpointRecord> {
  const input = new Input(source instanceof Uint8Array ? [source] : source, signal)
  try {
    return await importFrom(input, store, signal)
  } finally {
    input.close()
  }
}

async function importFrom(
  input: Input,
  store: CheckpointStore,
  signal: AbortSignal | undefined,
): Promise<CheckpointRecord> {
  const root = new Digests()
  const start = await input.take(magic.byteLength)
  if (!start.every((byte, i) => byte === magic[i]))
    throw corrupt('it is no exported checkpoint of a version known here')
  const { workloadId, progress, parts } = headOf(await nextPiece(input, root, mostHeadBytes))
  const token = await store.acquire(workloadId, { signal }).catch((error: unknown) => {
    throw error instanceof TypeError ? failed(`the store does not take it: ${error.message}`, error) : error
  })
  const writer = await store.begin({ workloadId, token, progress, parts }, { signal })
  try {
    for (const { name, byteLength } of parts) {
      for (let seen = 0; seen < byteLength;) {
        const bytes = await nextPiece(input, root, mostPieceBytes)
        seen += bytes.byteLength
        if (bytes.byteLength === 0 || seen > byteLength)
          throw corrupt(`the pieces of part '${name}' do not make up its length`)
        await writer.append(name, bytes, { signal })
      }
    }
    const end = await input.take(4)
    if (numberOf(end) !== 0) throw corrupt('it goes on after its last part')
    if (!isSame(await input.take(digestBytes), await root.digest()))
      throw corrupt('its SHA-256 does not match its content')
    await input.assertEnd()
    return await writer.commit({ signal })
  } catch (error) {
    await writer.discard()
    throw error
  }
}

/** Bytes in pieces of one size, whatever they come in. */
async function* inPieces(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  let filled = 0
  let piece: Uint8Array<ArrayBuffer> | undefined
  for await (const bytes of source) {
    for (let at = 0; at < bytes.byteLength;) {
      piece ??= new Uint8Array(pieceBytes)
      const some = bytes.subarray(at, at + pieceBytes - filled)
      piece.set(some, filled)
      filled += some.byteLength
      at += some.byteLength
      if (filled < pieceBytes) continue
      yield piece
      piece = undefined
      filled = 0
    }
  }
  if (piece !== undefined) yield piece.slice(0, filled)
}

async function* piece(bytes: Uint8Array<ArrayBuffer>, root: Digests): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const digest = await sha256(bytes)
  root.add(digest)
  yield lengthOf(bytes.byteLength)
  yield digest
  yield bytes
}

async function nextPiece(input: Input, root: Digests, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const length = numberOf(await input.take(4))
  if (length > most) throw corrupt(`a piece of ${length} bytes is none`)
  const digest = await input.take(digestBytes)
  const bytes = await input.take(length)
  if (!isSame(digest, await sha256(bytes))) throw corrupt('a piece of it was altered (SHA-256)')
  root.add(digest)
  return bytes
}

function headOf(bytes: Uint8Array): Head {
  let head: Partial<Head> | null
  try {
    head = parseForeign(bytes) as Partial<Head> | null
  } catch (error) {
    throw corrupt('its head cannot be read', error)
  }
  const { workloadId, progress, parts } = head ?? {}
  const hasParts =
    Array.isArray(parts) && parts.every((part: Partial<StatePart> | null) => typeof part?.name === 'string')
  if (typeof workloadId !== 'string' || typeof progress !== 'number' || !hasParts)
    throw corrupt('its head is incomplete')
  try {
    return { workloadId, progress, parts: new PartTally({ progress, parts }).parts }
  } catch (error) {
    throw corrupt('its head names parts that cannot be', error)
  }
}

/** The SHA-256 of each piece so far. */
class Digests {
  #bytes: Uint8Array<ArrayBuffer> = new Uint8Array(2 ** 5 * digestBytes)
  #count = 0

  add(digest: Uint8Array): void {
    if (this.#count === mostPieces) throw corrupt(`it has more than ${mostPieces} pieces`)
    if (this.#count * digestBytes === this.#bytes.byteLength) {
      const larger = new Uint8Array(this.#bytes.byteLength * 2)
      larger.set(this.#bytes)
      this.#bytes = larger
    }
    this.#bytes.set(digest, this.#count * digestBytes)
    this.#count += 1
  }

  digest(): Promise<Uint8Array<ArrayBuffer>> {
    return sha256(this.#bytes.subarray(0, this.#count * digestBytes))
  }
}

/** Bytes as they come, given out as they are asked for. */
class Input {
  readonly #source: AsyncIterator<Uint8Array> | Iterator<Uint8Array>
  readonly #signal: AbortSignal | undefined
  #rest: Uint8Array = new Uint8Array()

  constructor(source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, signal: AbortSignal | undefined) {
    if (typeof source !== 'object' || source === null) throw noBytes()
    if (Symbol.asyncIterator in source) this.#source = source[Symbol.asyncIterator]()
    else if (Symbol.iterator in source) this.#source = source[Symbol.iterator]()
    else throw noBytes()
    this.#signal = signal
  }

  /** Not awaited: a source that hangs does not get to it. */
  close(): void {
    Promise.resolve(this.#source.return?.()).catch(() => undefined)
  }

  async take(byteLength: number): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = new Uint8Array(byteLength)
    for (let filled = 0; filled < byteLength;) {
      if (this.#rest.byteLength === 0 && !(await this.#more())) throw corrupt('it ends too early')
      const some = this.#rest.subarray(0, byteLength - filled)
      bytes.set(some, filled)
      filled += some.byteLength
      this.#rest = this.#rest.subarray(some.byteLength)
    }
    return bytes
  }

  async assertEnd(): Promise<void> {
    while (this.#rest.byteLength === 0) if (!(await this.#more())) return
    throw corrupt('it goes on after its end')
  }

  async #more(): Promise<boolean> {
    const next = await this.#next()
    if (next.done === true) return false
    if (!(next.value instanceof Uint8Array)) throw noBytes()
    this.#rest = next.value
    return true
  }

  async #next(): Promise<IteratorResult<Uint8Array>> {
    const signal = this.#signal
    const what = 'the next bytes of an export'
    try {
      return await withDeadline(async () => this.#source.next(), { clock: systemClock, ms: Infinity, signal, what })
    } catch (error) {
      if (EGpuError.is(error) || (signal?.aborted === true && error === signal.reason)) throw error
      throw failed(`it cannot be read: ${messageOf(error)}; is it a file that this user may read?`, error)
    }
  }
}

function lengthOf(byteLength: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, byteLength)
  return bytes
}

function numberOf(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0)
}

function isSame(a: Uint8Array, b: Uint8Array): boolean {
  return a.byteLength === b.byteLength && a.every((byte, i) => byte === b[i])
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
}

function corrupt(why: string, cause?: unknown): EGpuError {
  return new EGpuError(EGpuErrorCode.CheckpointCorrupt, `this export cannot be used: ${why}`, { cause })
}

function failed(why: string, cause: unknown): EGpuError {
  return new EGpuError(EGpuErrorCode.CheckpointFailed, `this export was not imported: ${why}`, { cause })
}

function noBytes(): TypeError {
  return new TypeError('an exported checkpoint is read from its bytes: a Uint8Array, or something that yields them')
}
