import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { StatePart } from '@egpu/core'
import type { CheckpointRecord } from '../../checkpoint/store.ts'
import { seal, unseal } from '../sealed.ts'
import { corrupt } from '../chunks/content.ts'

/** Written from now on. */
const version = 1
const kind = 'egpu-head'

/** Of the few checkpoints of one workload, with the names of their parts. */
export const mostHeadBytes: number = 2 ** 25

/** A checkpoint, as the head of its workload names it. */
export interface HeadEntry extends CheckpointRecord {
  /** Random; of the manifest's object, and known to whoever wrote it. */
  readonly manifest: string
}

/**
 * All there is of one workload at one time. Heads are numbered, and each number can be written once, so whoever writes the
 * next knows that nobody else did.
 */
export interface Head {
  /** Number of the head that made somebody the writer; its commits have to carry it. */
  readonly token: number
  /** Newest first. */
  readonly checkpoints: readonly HeadEntry[]
  /** Random; tells whoever lost the answer whether it was their write that went through. */
  readonly nonce: string
}

/** Throws `EGPU_CHECKPOINT_FAILED` for what could not be read again. */
export function encodeHead(head: Head): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(seal(kind, version, head))
  if (bytes.byteLength <= mostHeadBytes) return bytes
  const message = `the parts of ${head.checkpoints.length} checkpoints are more than can be listed; keep fewer, or name them shorter`
  throw new EGpuError(EGpuErrorCode.CheckpointFailed, message)
}

/** Throws `EGPU_CHECKPOINT_CORRUPT` for anything but a head of this workload, of a version known here. */
export function decodeHead(bytes: Uint8Array, workloadId: string): Head {
  const { version: found, body } = unseal(kind, bytes, corrupt)
  if (found !== String(version)) throw corrupt(`its head has version ${found}; update @egpu/migrator to use it`)
  const { token, checkpoints, nonce } = (body() ?? {}) as Partial<Head>
  if (!isCount(token) || typeof nonce !== 'string' || !Array.isArray(checkpoints)) {
    throw corrupt('its head is incomplete')
  }
  if (!checkpoints.every((entry) => isEntry(entry, workloadId))) {
    throw corrupt('its head names a checkpoint that cannot be')
  }
  return { token, checkpoints, nonce }
}

function isEntry(value: unknown, workloadId: string): value is HeadEntry {
  const { manifest, parts, progress, ...entry } = (value ?? {}) as Partial<HeadEntry>
  const isRecord = isCount(entry.generation) && isCount(entry.byteLength) && isCount(entry.savedAtMs)
  const isOurs = entry.workloadId === workloadId && Number.isFinite(progress)
  return isRecord && isOurs && /^[\da-f]{32}$/.test(manifest ?? '') && Array.isArray(parts) && parts.every(isPart)
}

function isPart(value: unknown): value is StatePart {
  const { name, byteLength } = (value ?? {}) as Partial<StatePart>
  return typeof name === 'string' && isCount(byteLength)
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
