import type { SavedState } from '@egpu/core'
import type { CheckpointRecord, CheckpointStore } from '@egpu/migrator'

export type Parts = Readonly<Record<string, Uint8Array>>

/** Bytes that do not repeat, from a seed. */
export function noise(byteLength: number, seed: number): Uint8Array {
  const words = new Uint32Array(Math.ceil(byteLength / 4))
  let word = Math.imul(seed + 1, 2_654_435_761)
  for (let i = 0; i < words.length; i += 1) {
    // xorshift32, Marsaglia 2003
    word ^= word << 13
    word ^= word >>> 17
    word ^= word << 5
    words[i] = word
  }
  return new Uint8Array(words.buffer, 0, byteLength).slice()
}

export function stateOf(progress: number, parts: Parts, pieceBytes: number = 100): SavedState {
  return {
    progress,
    parts: Object.entries(parts).map(([name, { byteLength }]) => ({ name, byteLength })),
    async *read(name) {
      const bytes = parts[name] as Uint8Array
      for (let at = 0; at < bytes.byteLength; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes)
    },
  }
}

/** Writes one checkpoint the way a manager does, without its retention. */
export async function write(
  store: CheckpointStore,
  workloadId: string,
  token: number,
  progress: number,
  parts: Parts,
): Promise<CheckpointRecord> {
  const state = stateOf(progress, parts)
  const writer = await store.begin({ workloadId, token, progress, parts: state.parts })
  try {
    for (const { name } of state.parts) {
      for await (const piece of state.read(name)) await writer.append(name, piece)
    }
    return await writer.commit()
  } catch (error) {
    await writer.discard()
    throw error
  }
}

export async function readBack(state: SavedState): Promise<Record<string, Uint8Array>> {
  const parts: Record<string, Uint8Array> = {}
  for (const { name } of state.parts) {
    const pieces: Uint8Array[] = []
    for await (const piece of state.read(name)) pieces.push(piece.slice())
    parts[name] = new Uint8Array(Buffer.concat(pieces))
  }
  return parts
}
