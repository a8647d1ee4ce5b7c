import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { plainText } from '../text.ts'
import { readJson, writeJson } from './json-file.ts'

/** What a host remembers of a resource. Without an owner it was given up, and the token still counts. */
export interface BookEntry {
  readonly resource: string
  readonly owner: string | undefined
  readonly token: number
}

/** Resources that peers speak of: more is a peer gone mad. What this host owns itself is kept all the same. */
const most = { inAll: 100_000, perPeer: 10_000 } as const

/** Who owns what, as this host last heard; kept in a file where a path is given. */
export class OwnershipBook {
  readonly #path: string | undefined
  readonly #entries: Map<string, BookEntry>
  /** Resources that were first heard of from a peer, since this process began. */
  readonly #heard = new Map<string, number>()

  private constructor(path: string | undefined, entries: readonly BookEntry[]) {
    this.#path = path
    this.#entries = new Map(entries.map((entry) => [entry.resource, entry]))
  }

  /** Rejects with `EGPU_MALFORMED_DATA` when the file cannot be understood. */
  static async open(path?: string): Promise<OwnershipBook> {
    const found = path === undefined ? undefined : await readJson(path)
    if (found !== undefined && !Array.isArray(found)) throw malformed(`${path} is no record of owners`)
    return new OwnershipBook(
      path,
      (found ?? []).map((entry: unknown) => OwnershipBook.entry(entry)),
    )
  }

  /** Checks what a file or a peer says. */
  static entry(value: unknown): BookEntry {
    const { resource, owner, token } = (value ?? {}) as Partial<Record<keyof BookEntry, unknown>>
    if (typeof resource !== 'string' || resource.length === 0 || resource.length > 1_024) {
      throw malformed('an ownership names no resource')
    }
    if (!Number.isSafeInteger(token) || (token as number) < 1) throw malformed(`${String(token)} is no fencing token`)
    if (owner !== undefined && owner !== null && !isNodeId(owner)) throw malformed('an owner has no node id')
    return { resource, owner: owner ?? undefined, token: token as number }
  }

  get(resource: string): BookEntry | undefined {
    return this.#entries.get(resource)
  }

  entries(): readonly BookEntry[] {
    return [...this.#entries.values()]
  }

  /** What this host says itself. Durable once it resolves. */
  async put(entry: BookEntry): Promise<void> {
    this.#entries.set(entry.resource, entry)
    if (this.#path !== undefined) await writeJson(this.#path, () => this.entries())
  }

  /** What a peer says. Rejects with `EGPU_MALFORMED_DATA` when it speaks of more than can be. */
  async hear(entry: BookEntry, from: string): Promise<void> {
    if (!this.#entries.has(entry.resource)) {
      const heard = this.#heard.get(from) ?? 0
      if (heard >= most.perPeer || this.#entries.size >= most.inAll)
        throw malformed(`${from} speaks of more resources than there can be`)
      this.#heard.set(from, heard + 1)
    }
    await this.put(entry)
  }
}

/** Fit to be a host's id, and to be told of: some are of another form than a fingerprint where a program makes them. */
export function isNodeId(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && plainText(value) === value
}

function malformed(message: string): EGpuError {
  return new EGpuError(EGpuErrorCode.MalformedData, message)
}
