import { createHash } from 'node:crypto'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { StatePart } from '@egpu/core'

/** The only version there is so far. A reader for each earlier one stays in `readers` for good. */
export const formatVersion = 1

/** Where the bytes of one chunk are, and what they must be. */
export interface ChunkRef {
  /** Name of the pack file. */
  readonly pack: string
  readonly offset: number
  readonly byteLength: number
  readonly crc32: number
  /** Hex. What makes two chunks the same. */
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

const magic = 'egpu-checkpoint'

/** Two lines: what it is and the SHA-256 of the rest, then the rest as JSON. */
export function encodeManifest(manifest: Manifest): Uint8Array {
  const { parts, ...head } = manifest
  const packs = [...new Set(parts.flatMap(({ chunks }) => chunks.map(({ pack }) => pack)))]
  const body = Buffer.from(
    JSON.stringify({
      ...head,
      packs,
      parts: parts.map(({ name, byteLength, chunks }) => ({
        name,
        byteLength,
        chunks: chunks.map((c) => [packs.indexOf(c.pack), c.offset, c.byteLength, c.crc32, c.sha256]),
      })),
    }),
  )
  return Buffer.concat([Buffer.from(`${magic} ${formatVersion} ${sha256(body)}\n`), body])
}

/** Throws `EGPU_CHECKPOINT_CORRUPT` with what is wrong for anything but a whole manifest of this workload. */
export function decodeManifest(bytes: Uint8Array, expected: { readonly generation: number }): Manifest {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const lineEnd = text.indexOf('\n')
  const [kind, version, root, ...rest] = text.subarray(0, Math.max(0, lineEnd)).toString('latin1').split(' ')
  if (kind !== magic || version === undefined || root === undefined || rest.length > 0) {
    throw corrupt('it does not begin as a manifest does')
  }
  const read = readers[version]
  if (read === undefined) {
    const known = Object.keys(readers).join(', ')
    throw corrupt(`it has format version ${version}, this package reads ${known}; update @egpu/migrator to use it`)
  }
  const body = text.subarray(lineEnd + 1)
  if (sha256(body) !== root) throw corrupt('its SHA-256 does not match its content')
  const manifest = read(JSON.parse(body.toString('utf8')))
  if (manifest.generation !== expected.generation) {
    throw corrupt(`it says that it is generation ${manifest.generation}, and was found as ${expected.generation}`)
  }
  return manifest
}

const readers: Readonly<Record<string, (body: unknown) => Manifest>> = { '1': readVersion1 }

/** The SHA-256 says that this is what was written, not that whoever wrote it meant well: every value is checked. */
function readVersion1(body: unknown): Manifest {
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
    const chunks = list(part['chunks'], 'chunks').map((chunk) => readChunk(chunk, packs))
    const sum = chunks.reduce((total, chunk) => total + chunk.byteLength, 0)
    if (sum !== byteLength) throw corrupt(`the chunks of part '${name}' hold ${sum} bytes, not its ${byteLength}`)
    return { name, byteLength, chunks }
  })
  const progress = root['progress']
  if (typeof progress !== 'number') throw corrupt('its progress is no number')
  return {
    workloadId: string(root['workloadId'], 'the id of the workload'),
    generation: count(root['generation'], 'the generation'),
    token: count(root['token'], 'the token'),
    savedAtMs: count(root['savedAtMs'], 'the time'),
    progress,
    parts,
  }
}

function readChunk(value: unknown, packs: readonly string[]): ChunkRef {
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
    crc32: count(crc32, 'a CRC-32'),
    sha256: sha,
  }
}

/** Random and flat, so that no name from a manifest can lead out of the directory. */
export function isPackName(name: string): boolean {
  return /^[\da-f]{32}\.pack$/.test(name)
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
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

function corrupt(why: string): EGpuError {
  return new EGpuError(EGpuErrorCode.CheckpointCorrupt, `this checkpoint cannot be used: ${why}`)
}
