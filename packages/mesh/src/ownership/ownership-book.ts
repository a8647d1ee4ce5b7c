import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { readJson, writeJson } from './json-file.ts'

/** What a host remembers of a resource. Without an owner it was given up, and the token still counts. */
export interface BookEntry {
  readonly resource: string
  readonly owner: string | undefined
  readonly token: number
}

/** Resources of one mesh: more is a peer gone mad. */
const mostEntries = 100_000

/** Who owns what, as this host last heard; kept in a file where a path is given. */
export class OwnershipBook {
  readonly #path: string | undefined
  readonly #entries: Map<string, BookEntry>

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
    if (owner !== undefined && owner !== null && typeof owner !== 'string') throw malformed('an owner has no node id')
    return { resource, owner: owner ?? undefined, token: token as number }
  }

  get(resource: string): BookEntry | undefined {
    return this.#entries.get(resource)
  }

  entries(): readonly BookEntry[] {
    return [...this.#entries.values()]
  }

  /** Durable once it resolves. */
  async put(entry: BookEntry): Promise<void> {
    if (!this.#entries.has(entry.resource) && this.#entries.size >= mostEntries) {
      throw malformed(`more than ${mostEntries} resources are owned: that cannot be`)
    }
    this.#entries.set(entry.resource, entry)
    if (this.#path !== undefined) await writeJson(this.#path, () => this.entries())
  }
}

function malformed(message: string): EGpuError {
  return new EGpuError(EGpuErrorCode.MalformedData, message)
}
