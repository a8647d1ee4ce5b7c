import { randomBytes } from 'node:crypto'
import type { ChunkSink } from '../chunks/chunk-writer.ts'
import type { S3Bucket } from './s3-bucket.ts'

const tokenDigits = 8

/** A name that nothing else has, and that tells whose it is. */
export function objectName(token: number): string {
  return `${token.toString(16).padStart(tokenDigits, '0')}${randomBytes(12).toString('hex')}`
}

/** Which writer gave this name; `NaN` for names of others. */
export function tokenOf(name: string): number {
  return /^[\da-f]{32}(\.pack)?$/.test(name) ? Number.parseInt(name.slice(0, tokenDigits), 16) : NaN
}

/** New chunks of one checkpoint, each an object of its own under a random name that begins with its writer's token. */
export class ObjectSink implements ChunkSink {
  readonly #bucket: S3Bucket
  readonly #folder: string
  readonly #token: number
  readonly #written: string[] = []

  constructor(bucket: S3Bucket, folder: string, token: number) {
    this.#bucket = bucket
    this.#folder = `${folder}/packs`
    this.#token = token
  }

  async put(bytes: Uint8Array): Promise<{ readonly pack: string; readonly offset: number }> {
    const pack = `${objectName(this.#token)}.pack`
    this.#written.push(pack)
    // A copy: what is sent must not change while it is, and requests take no shared memory.
    await this.#bucket.create(`${this.#folder}/${pack}`, new Uint8Array(bytes))
    return { pack, offset: 0 }
  }

  /** An object is there for good once its request was answered. */
  finish(): Promise<void> {
    return Promise.resolve()
  }

  async discard(): Promise<void> {
    for (const pack of this.#written) await this.#bucket.remove(`${this.#folder}/${pack}`)
  }
}
