import { EGpuError, EGpuErrorCode, systemClock } from '@egpu/core'
import type { AbortOptions, Clock } from '@egpu/core'
import { withDeadline } from '../../deadline.ts'
import { messageOf } from '../../failure.ts'
import { corrupt } from '../chunks/content.ts'

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

/** Whoever sends nothing for so long never will; Node's own `fetch` gives up by then too. */
const answerMs = 300_000

/** A page of a list has a thousand keys at most. */
const mostPageBytes = 2 ** 24

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

  /** `undefined` where there is none. Rejects with `EGPU_CHECKPOINT_CORRUPT` for one of more than `mostBytes`. */
  async get(
    key: string,
    { mostBytes, ...options }: AbortOptions & { readonly mostBytes: number },
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    return this.#retried(`GET ${key}`, { method: 'GET' }, this.#at(key), options, async (response) => {
      if (response.status === 404) {
        await response.body?.cancel()
        return undefined
      }
      const bytes = await bodyOf(await this.#accept(response, `GET ${key}`), mostBytes)
      if (bytes === undefined) throw corrupt(`${key} has more than the ${mostBytes} bytes that it may have`)
      return bytes
    })
  }

  /**
   * Writes an object unless there is one: false where there was. After an answer got lost, whoever finds one has to look
   * whether it is the own one.
   */
  async create(key: string, bytes: Uint8Array<ArrayBuffer>, options: AbortOptions = {}): Promise<boolean> {
    const init = { method: 'PUT', body: bytes, headers: { 'if-none-match': '*' } }
    return this.#retried(`PUT ${key}`, init, this.#at(key), options, async (response) => {
      if (response.status !== 412) await this.#accept(response, `PUT ${key}`)
      await response.body?.cancel()
      return response.status !== 412
    })
  }

  /** Fine when it is not there. */
  async remove(key: string, options: AbortOptions = {}): Promise<void> {
    await this.#retried(`DELETE ${key}`, { method: 'DELETE' }, this.#at(key), options, async (response) => {
      if (response.status !== 404) await this.#accept(response, `DELETE ${key}`)
      await response.body?.cancel()
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
      const page = await this.#retried(`list ${prefix}`, { method: 'GET' }, url, options, async (response) =>
        pageOf(await bodyOf(await this.#accept(response, `list ${prefix}`), mostPageBytes)),
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
        const answer = await withDeadline((abort) => this.#sendOnce(what, url, { ...init, signal: abort }, read), {
          clock: this.#clock,
          ms: answerMs,
          signal,
          what,
        })
        if ('value' in answer) return answer.value
        failure = answer.failure
      } catch (error) {
        signal?.throwIfAborted()
        // The server said no; it will not say anything else.
        if (EGpuError.is(error) && !EGpuError.is(error, EGpuErrorCode.Timeout)) throw error
        failure = failed(what, messageOf(error), error)
        // A server that hangs is tried once more, not for half an hour.
        if (EGpuError.is(error)) attempt = Math.max(attempt, retries - 1)
      }
      if (attempt === retries) throw failure
      await this.#clock.sleep(firstRetryMs * 2 ** attempt * (0.5 + Math.random() / 2), { signal })
    }
  }

  async #sendOnce<T>(
    what: string,
    url: string,
    init: RequestInit,
    read: (response: Response) => Promise<T>,
  ): Promise<{ readonly value: T } | { readonly failure: EGpuError }> {
    const response = await this.#send(url, init)
    if (!isTransient(response.status)) return { value: await read(response) }
    return { failure: failed(what, `the server answered ${await told(response)}`) }
  }

  async #accept(response: Response, what: string): Promise<Response> {
    if (response.ok) return response
    const hint =
      response.status === 403
        ? '; check the credentials and what they may do with this bucket'
        : response.status === 404
          ? '; is there a bucket of this name?'
          : ''
    throw failed(what, `the server answered ${await told(response)}${hint}`)
  }
}

/** The status and, as far as it goes, why. */
async function told(response: Response): Promise<string> {
  const body = await bodyOf(response, 2 ** 16)
  const text = new TextDecoder().decode(body ?? new Uint8Array())
  return `${response.status} ${textOf(text, 'Code') ?? text.slice(0, 200)}`.trim()
}

/** All of an answer; `undefined` for one that is too long, of which the rest is not taken. */
async function bodyOf(response: Response, mostBytes: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const pieces: Uint8Array[] = []
  let count = 0
  // To leave the loop cancels the rest.
  for await (const piece of response.body ?? []) {
    count += piece.byteLength
    if (count > mostBytes) return undefined
    pieces.push(piece)
  }
  const bytes = new Uint8Array(count)
  let at = 0
  for (const piece of pieces) {
    bytes.set(piece, at)
    at += piece.byteLength
  }
  return bytes
}

/** Anything else than a whole list, from a proxy for one, would read as one of nothing. */
function pageOf(bytes: Uint8Array | undefined): string {
  const page = new TextDecoder().decode(bytes ?? new Uint8Array())
  if (page.includes('<ListBucketResult') && page.trimEnd().endsWith('</ListBucketResult>')) return page
  throw new Error(`the server did not answer with a list of objects but with ${JSON.stringify(page.slice(0, 100))}`)
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
