import type { AbortOptions, SavedState } from '@egpu/core'
import { malformed } from '../bulk/chunk.ts'
import { hashes, sharedBuffer } from '../bulk/hash-pool.ts'
import { checkpointChunkBytes } from './checkpoint-manifest.ts'
import type { CheckpointManifest } from './checkpoint-manifest.ts'

/** Chunks that are read while others are hashed. */
const inFlight = 4

interface PlacedBytes {
  readonly part: string
  readonly bytes: Buffer
}

/** The bytes of a state in pieces of one size. Buffers go round: each is valid until `buffers - 1` more were asked for. */
export async function* stateChunks(
  state: SavedState,
  { chunkBytes, buffers, signal }: AbortOptions & { readonly chunkBytes: number; readonly buffers: number },
): AsyncGenerator<PlacedBytes> {
  const largest = Math.min(chunkBytes, Math.max(1, ...state.parts.map(({ byteLength }) => byteLength)))
  const ring = Array.from({ length: buffers }, () => sharedBuffer(largest))
  let turn = 0
  for (const { name: part, byteLength } of state.parts) {
    let seen = 0
    let filled = 0
    for await (const piece of state.read(part, { signal })) {
      for (let at = 0; at < piece.byteLength;) {
        const buffer = ring[turn % buffers] as Buffer
        const whole = Math.min(chunkBytes, byteLength - (seen - filled))
        const some = piece.subarray(at, at + whole - filled)
        if (some.byteLength === 0) throw malformed(`part '${part}' has more bytes than it says`)
        buffer.set(some, filled)
        filled += some.byteLength
        seen += some.byteLength
        at += some.byteLength
        if (filled < whole) continue
        turn += 1
        filled = 0
        yield { part, bytes: buffer.subarray(0, whole) }
      }
    }
    if (seen < byteLength) throw malformed(`part '${part}' has ${seen} of the ${byteLength} bytes it says`)
  }
}

/** Reads a state once and says what it is made of. */
export async function describeState(
  workloadId: string,
  state: SavedState,
  { signal }: AbortOptions = {},
): Promise<CheckpointManifest> {
  const chunkBytes = checkpointChunkBytes
  const ids = new Map<string, Promise<string>[]>(state.parts.map(({ name }) => [name, []]))
  const pending: Promise<string>[] = []
  for await (const { part, bytes } of stateChunks(state, { chunkBytes, buffers: inFlight + 2, signal })) {
    const hash = hashes.sha256(bytes)
    hash.catch(() => undefined)
    ids.get(part)?.push(hash)
    pending.push(hash)
    if (pending.length > inFlight) await pending.shift()
  }
  const parts = await Promise.all(
    state.parts.map(async ({ name, byteLength }) => ({
      name,
      byteLength,
      chunks: await Promise.all(ids.get(name) ?? []),
    })),
  )
  return { workloadId, progress: state.progress, chunkBytes, parts }
}

/** Chunks that went by and may still be asked for: several links ask a little out of order. */
const kept = 16

/** Gives single chunks of a state that can only be read from front to back; cheap for who asks in order. */
export class StateReader {
  readonly #state: SavedState
  readonly #chunkBytes: number
  readonly #recent = new Map<number, Buffer>()
  #chunks: AsyncGenerator<PlacedBytes> | undefined
  #next = 0
  #turn: Promise<unknown> = Promise.resolve()

  constructor(state: SavedState, chunkBytes: number) {
    this.#state = state
    this.#chunkBytes = chunkBytes
  }

  /** Copies the chunk of this place in the whole state. */
  read(index: number, into: Uint8Array): Promise<void> {
    const reading = this.#turn.then(() => this.#read(index, into))
    this.#turn = reading.catch(() => undefined)
    return reading
  }

  async close(): Promise<void> {
    await this.#turn
    await this.#rewind()
  }

  async #read(index: number, into: Uint8Array): Promise<void> {
    if (index < this.#next && !this.#recent.has(index)) await this.#rewind()
    this.#chunks ??= stateChunks(this.#state, { chunkBytes: this.#chunkBytes, buffers: kept + 1 })
    while (this.#next <= index) {
      const { value, done } = await this.#chunks.next()
      if (done === true) throw new Error('the checkpoint got shorter since it was described')
      this.#recent.set(this.#next, value.bytes)
      this.#recent.delete(this.#next - kept)
      this.#next += 1
    }
    into.set(this.#recent.get(index) as Buffer)
  }

  async #rewind(): Promise<void> {
    await this.#chunks?.return(undefined)
    this.#chunks = undefined
    this.#next = 0
    this.#recent.clear()
  }
}
