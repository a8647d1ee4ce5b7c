import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { readJson, writeJson } from './json-file.ts'

/**
 * The highest fencing token that was seen for each resource, which is what makes a stale one known as stale. Kept in a
 * file where a path is given, so that a restart forgets none.
 */
export class TokenBook {
  readonly #path: string | undefined
  readonly #tokens: Map<string, number>

  private constructor(path: string | undefined, tokens: Map<string, number>) {
    this.#path = path
    this.#tokens = tokens
  }

  /** Rejects with `EGPU_MALFORMED_DATA` when the file cannot be understood: forgetting tokens would let stale ones pass. */
  static async open(path?: string): Promise<TokenBook> {
    if (path === undefined) return new TokenBook(undefined, new Map())
    return new TokenBook(path, new Map(Object.entries(tokensIn(path, await readJson(path)))))
  }

  highest(resource: string): number {
    return this.#tokens.get(resource) ?? 0
  }

  /** Throws `EGPU_STALE_EPOCH` when a higher token was seen. */
  assertCurrent(resource: string, token: number): void {
    const highest = this.highest(resource)
    if (token >= highest) return
    throw new EGpuError(
      EGpuErrorCode.StaleEpoch,
      `token ${token} for ${resource} is stale: ${highest} was seen already, so another host owns it now, or the ` +
        'coordinator lost what it knew (an etcd that was restored from a backup goes on from a lower revision)',
    )
  }

  /** Like `assertCurrent`, and from when it resolves every lower token is stale, also after a restart. */
  async see(resource: string, token: number): Promise<void> {
    if (!Number.isSafeInteger(token) || token < 1) {
      throw new EGpuError(EGpuErrorCode.MalformedData, `${String(token)} is no fencing token`)
    }
    this.assertCurrent(resource, token)
    if (token === this.highest(resource)) return
    this.#tokens.set(resource, token)
    if (this.#path !== undefined) await writeJson(this.#path, () => Object.fromEntries(this.#tokens))
  }
}

function tokensIn(path: string, found: unknown): Record<string, number> {
  const tokens = (found ?? {}) as Record<string, number>
  const isRecord = typeof tokens === 'object' && !Array.isArray(tokens)
  if (isRecord && Object.values(tokens).every((token) => Number.isSafeInteger(token) && token > 0)) return tokens
  throw new EGpuError(EGpuErrorCode.MalformedData, `${path} is no record of fencing tokens; restore it from a backup`)
}
