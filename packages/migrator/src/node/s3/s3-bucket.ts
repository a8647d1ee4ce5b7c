import { EGpuError, EGpuErrorCode, systemClock } from '@egpu/core'
import type { AbortOptions, Clock } from '@egpu/core'
import { messageOf } from '../../failure.ts'

/** What signs and sends a request: `fetch` itself, or `AwsClient.fetch` of aws4fetch. */
export type SendRequest = (url: string, init: RequestInit) => Promise<Response>

export interface S3BucketOptions {
  /** Of the bucket and a prefix in it, without a slash at the end. */
  readonly url: string
  readonly send: SendRequest
  readonly clock?: Clock | undefined
}

export interface ListedKeys {
  /** Below the prefix that was asked for, sorted. */
  readonly keys: readonly string[]
  /** With a delimiter: what comes before it. */
  readonly prefixes: readonly string[]
}

/** A request that got no answer, or that the server could not carry out just now, is sent again so many times. */
const retries = 4
const firstRetryMs = 100

/** Transient by S3's own list of error codes; 409 is a conditional write that met another one under way. */
const isTransient = (status: number): boolean => status === 409 || status === 429 || status >= 500

/**
 * The few calls of the S3 API that a store needs. Answers can get lost after a request was carried out, so every call
 * here is one that may be carried out twice; `create` says who was first.
 */
export class S3Bucket {
  readonly url: string
  readonly #send: SendRequest
  readonly #clock: Clock

  constructor({ url, send, clock = systemClock }: S3BucketOptions) {
    this.url = url
    this.#send = send
    this.#clock = clock
  }

  /** `undefined` where there is none. */
  async get(key: string, options: AbortOptions = {}): Promise<Uint8Array<ArrayBuffer> | undefined> {
    return this.#retried(`GET ${key}`, { method: 'GET' }, this.#at(key), options, async (response) => {
      if (response.status === 404) return undefined
      return new Uint8Array(await this.#accept(response, `GET ${key}`).arrayBuffer())
    })
  }

  /**
   * Writes an object unless there is one: false where there was. After an answer got lost, whoever finds one has to look
   * whether it is the own one.
   */
  async create(key: string, bytes: Uint8Array<ArrayBuffer>, options: AbortOptions = {}): Promise<boolean> {
    const init = { method: 'PUT', body: bytes, headers: { 'if-none-match': '*' } }
    return this.#retried(`PUT ${key}`, init, this.#at(key), options, async (response) => {
      if (response.status === 412) return false
      await this.#accept(response, `PUT ${key}`).arrayBuffer()
      return true
    })
  }

  /** Fine when it is not there. */
  async remove(key: string, options: AbortOptions = {}): Promise<void> {
    await this.#retried(`DELETE ${key}`, { method: 'DELETE' }, this.#at(key), options, async (response) => {
      if (response.status !== 404) await this.#accept(response, `DELETE ${key}`).arrayBuffer()
    })
  }

  /** All keys that begin with `prefix`, page after page. */
  async list(prefix: string, options: AbortOptions & { readonly delimiter?: string } = {}): Promise<ListedKeys> {
    const { origin, pathname } = new URL(this.url)
    const [, bucket = '', ...path] = pathname.split('/')
    const whole = [...path.map(decodeURIComponent), prefix].join('/')
    const keys: string[] = []
    const prefixes: string[] = []
    let after: string | undefined
    do {
      const query = new URLSearchParams({ 'list-type': '2', 'encoding-type': 'url', prefix: whole })
      if (options.delimiter !== undefined) query.set('delimiter', options.delimiter)
      if (after !== undefined) query.set('continuation-token', after)
      const url = `${origin}/${bucket}?${query.toString()}`
      const page = await this.#retried(`list ${prefix}`, { method: 'GET' }, url, options, (response) =>
        this.#accept(response, `list ${prefix}`).text(),
      )
      for (const [, contents = ''] of page.matchAll(/<Contents>(.*?)<\/Contents>/gs)) {
        const key = textOf(contents, 'Key')
        if (key !== undefined) keys.push(decodeKey(key).slice(whole.length))
      }
      for (const [, contents = ''] of page.matchAll(/<CommonPrefixes>(.*?)<\/CommonPrefixes>/gs)) {
        const found = textOf(contents, 'Prefix')
        if (found !== undefined) prefixes.push(decodeKey(found).slice(whole.length, -1))
      }
      const next = textOf(page, 'IsTruncated') === 'true' ? textOf(page, 'NextContinuationToken') : undefined
      // A server that gives the same page again would be asked for ever.
      if (next !== undefined && next === after) throw failed(`list ${prefix}`, 'the server gives the same page twice')
      after = next
    } while (after !== undefined)
    return { keys, prefixes }
  }

  #at(key: string): string {
    return `${this.url}/${key}`
  }

  async #retried<T>(
    what: string,
    init: RequestInit,
    url: string,
    { signal }: AbortOptions,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    for (let attempt = 0; ; attempt += 1) {
      signal?.throwIfAborted()
      let failure: unknown
      try {
        const response = await this.#send(url, signal === undefined ? init : { ...init, signal })
        if (!isTransient(response.status)) return await read(response)
        failure = failed(what, `the server answered ${response.status} ${(await response.text()).slice(0, 200)}`)
      } catch (error) {
        signal?.throwIfAborted()
        // The server said no; it will not say anything else.
        if (EGpuError.is(error)) throw error
        failure = failed(what, messageOf(error), error)
      }
      if (attempt === retries) throw failure
      await this.#clock.sleep(firstRetryMs * 2 ** attempt * (0.5 + Math.random() / 2), { signal })
    }
  }

  #accept(response: Response, what: string): Response {
    if (response.ok) return response
    const hint = response.status === 403 ? '; check the credentials and what they may do with this bucket' : ''
    throw failed(what, `the server answered ${response.status}${hint}`)
  }
}

function textOf(xml: string, tag: string): string | undefined {
  return xml.match(new RegExp(`<${tag}>([^<]*)</${tag}>`))?.[1]
}

/** `encoding-type=url` as forms are encoded, which leaves nothing for XML to escape. */
function decodeKey(key: string): string {
  return decodeURIComponent(key.replaceAll('+', ' '))
}

function failed(what: string, why: string, cause?: unknown): EGpuError {
  return new EGpuError(EGpuErrorCode.CheckpointFailed, `${what}: ${why}`, { cause })
}
