import type { CheckpointRecord } from '../../checkpoint/store.ts'
import { seal, unseal } from '../sealed.ts'
import { corrupt } from '../chunks/content.ts'

/** Written from now on. */
const version = 1
const kind = 'egpu-head'

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

export function encodeHead(head: Head): Uint8Array<ArrayBuffer> {
  return new Uint8Array(seal(kind, version, head))
}

/** Throws `EGPU_CHECKPOINT_CORRUPT` for anything but a head of a version known here. */
export function decodeHead(bytes: Uint8Array): Head {
  const { version: found, body } = unseal(kind, bytes, corrupt)
  if (found !== String(version)) throw corrupt(`its head has version ${found}; update @egpu/migrator to use it`)
  const head = body() as Partial<Head> | null
  const { token, checkpoints, nonce } = head ?? {}
  if (!Number.isSafeInteger(token) || typeof nonce !== 'string' || !Array.isArray(checkpoints)) {
    throw corrupt('its head is incomplete')
  }
  for (const entry of checkpoints as readonly Partial<HeadEntry>[]) {
    if (!Number.isSafeInteger(entry.generation) || !/^[\da-f]{32}$/.test(entry.manifest ?? '')) {
      throw corrupt('its head names a checkpoint that cannot be')
    }
  }
  return head as Head
}
