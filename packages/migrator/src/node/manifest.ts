import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { StatePart } from '@egpu/core'
import { seal, unseal } from './sealed.ts'

/** Written from now on; 1 had no compressed chunks. A reader for each earlier one stays in `readers` for good. */
const formatVersion = 2

/** Where the bytes of one chunk are, and what they must be. */
export interface ChunkRef {
  /** Name of the pack file. */
  readonly pack: string
  readonly offset: number
  /** Of the content. */
  readonly byteLength: number
  /** What the pack holds of it: `byteLength` bytes as they are, or fewer as one zstd frame. */
  readonly storedBytes: number
  /** Of what the pack holds. */
  readonly crc32: number
  /** Of the content, hex. What makes two chunks the same. */
  readonly sha256: string
}

export interface ManifestPart extends StatePart {
  readonly chunks: readonly ChunkRef[]
}

/** All there is to know about one committed checkpoint. */
export interface Manifest {
  readonly workloadId: string
  readonly generation: number
  readonly token: number
  readonly progress: number
  readonly savedAtMs: number
  readonly parts: readonly ManifestPart[]
}

/** Manifests are read whole; 64 MiB of them describe more than half a terabyte. */
export const mostManifestBytes: number = 2 ** 26

/** No chunk is larger, so a manifest that lies cannot make a reader allocate more. */
export const mostChunkBytes: number = 2 ** 26

/** There will never have been so many writers; a number that leaves none above it would end a store. */
export const mostToken: number = 2 ** 52

const magic = 'egpu-checkpoint'

/** Throws `EGPU_CHECKPOINT_FAILED` for what could not be read again. */
export function encodeManifest(manifest: Manifest): Uint8Array {
  const { parts, ...head } = manifest
  const packs = [...new Set(parts.flatMap(({ chunks }) => chunks.map(({ pack }) => pack)))]
  const places = new Map(packs.map((name, place) => [name, place]))
  const bytes = seal(magic, formatVersion, {
    ...head,
    packs,
    parts: parts.map(({ name, byteLength, chunks }) => ({
      name,
      byteLength,
      chunks: chunks.map((chunk) => encodeChunk(chunk, places.get(chunk.pack))),
    })),
  })
  if (bytes.byteLength <= mostManifestBytes) return bytes
  const count = parts.reduce((sum, { chunks }) => sum + chunks.length, 0)
  throw new EGpuError(
    EGpuErrorCode.CheckpointFailed,
    `${parts.length} parts in ${count} chunks are more than one checkpoint can list; give the store a larger chunkBytes`,
  )
}

/** The last value is there only for a compressed chunk. */
function encodeChunk(chunk: ChunkRef, pack: number | undefined): readonly unknown[] {
  const { offset, byteLength, storedBytes, crc32, sha256 } = chunk
  const plain = [pack, offset, byteLength, crc32, sha256]
  return storedBytes === byteLength ? plain : [...plain, storedBytes]
}

/** Throws `EGPU_CHECKPOINT_CORRUPT` with what is wrong for anything but a whole manifest of this workload. */
export function decodeManifest(bytes: Uint8Array, expected: { readonly generation: number }): Manifest {
  const { version, body } = unseal(magic, bytes, corrupt)
  const read = readers[version]
  if (read === undefined) {
    const known = Object.keys(readers).join(', ')
    throw corrupt(`it has format version ${version}, this package reads ${known}; update @egpu/migrator to use it`)
  }
  const manifest = read(body())
  if (manifest.generation !== expected.generation) {
    throw corrupt(`it says that it is generation ${manifest.generation}, and was found as ${expected.generation}`)
  }
  return manifest
}

const readers: Readonly<Record<string, (body: unknown) => Manifest>> = {
  '1': (body) => readManifest(body, readPlainChunk),
  '2': (body) => readManifest(body, readChunk),
}

type ReadChunk = (value: unknown, packs: readonly string[]) => ChunkRef

/** The SHA-256 says that this is what was written, not that whoever wrote it meant well: every value is checked. */
function readManifest(body: unknown, readOne: ReadChunk): Manifest {
  const root = record(body, 'the manifest')
  const packs = list(root['packs'], 'packs').map((name) => {
    if (typeof name === 'string' && isPackName(name)) return name
    throw corrupt(`${JSON.stringify(name)} is no name of a pack`)
  })
  const names = new Set<string>()
  const parts = list(root['parts'], 'parts').map((value): ManifestPart => {
    const part = record(value, 'a part')
    const name = string(part['name'], 'the name of a part')
    if (names.has(name)) throw corrupt(`it has two parts '${name}'`)
    names.add(name)
    const byteLength = count(part['byteLength'], `the length of part '${name}'`)
    const chunks = list(part['chunks'], 'chunks').map((chunk) => readOne(chunk, packs))
    const sum = chunks.reduce((total, chunk) => total + chunk.byteLength, 0)
    if (sum !== byteLength) throw corrupt(`the chunks of part '${name}' hold ${sum} bytes, not its ${byteLength}`)
    return { name, byteLength, chunks }
  })
  const progress = root['progress']
  if (!Number.isFinite(progress)) throw corrupt('its progress is no number')
  return {
    workloadId: string(root['workloadId'], 'the id of the workload'),
    generation: count(root['generation'], 'the generation'),
    token: token(root['token']),
    savedAtMs: count(root['savedAtMs'], 'the time'),
    progress: progress as number,
    parts,
  }
}

function readChunk(value: unknown, packs: readonly string[]): ChunkRef {
  const plain = readPlainChunk(value, packs)
  const storedBytes = list(value, 'a chunk')[5]
  if (storedBytes === undefined) return plain
  const stored = count(storedBytes, 'the stored length of a chunk')
  if (stored === 0 || stored >= plain.byteLength)
    throw corrupt(`a chunk of ${plain.byteLength} bytes has ${stored} stored`)
  return { ...plain, storedBytes: stored }
}

function readPlainChunk(value: unknown, packs: readonly string[]): ChunkRef {
  const [packIndex, offset, byteLength, crc32, sha] = list(value, 'a chunk')
  const pack = packs[count(packIndex, 'the pack of a chunk')]
  const length = count(byteLength, 'the length of a chunk')
  if (pack === undefined) throw corrupt('a chunk is in a pack that is not listed')
  if (length === 0 || length > mostChunkBytes) throw corrupt(`a chunk of ${length} bytes is none`)
  if (typeof sha !== 'string' || !/^[\da-f]{64}$/.test(sha)) throw corrupt('a chunk has no SHA-256')
  return {
    pack,
    offset: count(offset, 'the place of a chunk'),
    byteLength: length,
    storedBytes: length,
    crc32: count(crc32, 'a CRC-32'),
    sha256: sha,
  }
}

/** Random and flat, so that no name from a manifest can lead out of the directory. */
export function isPackName(name: string): boolean {
  return /^[\da-f]{32}\.pack$/.test(name)
}

function record(value: unknown, what: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw corrupt(`${what} is no object`)
}

function list(value: unknown, what: string): readonly unknown[] {
  if (Array.isArray(value)) return value
  throw corrupt(`${what} is no list`)
}

function string(value: unknown, what: string): string {
  if (typeof value === 'string') return value
  throw corrupt(`${what} is no text`)
}

function count(value: unknown, what: string): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number
  throw corrupt(`${what} is ${JSON.stringify(value)}`)
}

function token(value: unknown): number {
  const found = count(value, 'the token')
  if (found <= mostToken) return found
  throw corrupt(`the token is ${found}`)
}

function corrupt(why: string): EGpuError {
  return new EGpuError(EGpuErrorCode.CheckpointCorrupt, `this checkpoint cannot be used: ${why}`)
}
