import type { Enclosure } from '../types/enclosure.ts'

interface Row {
  readonly bySource: Map<string, Enclosure>
  merged: Enclosure
}

/** The boxes, joined by the unique id of their router. The driver that saw one first wins, field by field. */
export class EnclosureTable {
  readonly #rows = new Map<string, Row>()
  #list: readonly Enclosure[] | undefined

  get list(): readonly Enclosure[] {
    return (this.#list ??= Object.freeze([...this.#rows.values()].map(({ merged }) => merged)))
  }

  find(id: string): Enclosure | undefined {
    return this.#rows.get(id)?.merged
  }

  /** Ids that this driver sees. */
  seenBy(driver: string): readonly string[] {
    return [...this.#rows].filter(([, { bySource }]) => bySource.has(driver)).map(([id]) => id)
  }

  sees(driver: string, id: string): boolean {
    return this.#rows.get(id)?.bySource.has(driver) === true
  }

  observe(driver: string, enclosure: Enclosure): Enclosure {
    const row = this.#rows.get(enclosure.id) ?? { bySource: new Map<string, Enclosure>(), merged: enclosure }
    row.bySource.set(driver, { ...enclosure, seenBy: enclosure.seenBy ?? driver })
    row.merged = merge([...row.bySource.values()])
    this.#rows.set(enclosure.id, row)
    this.#list = undefined
    return row.merged
  }

  /** What it was when its last driver lost sight of it; `undefined` while another one still sees it. */
  remove(driver: string, id: string): Enclosure | undefined {
    const row = this.#rows.get(id)
    if (row === undefined || !row.bySource.delete(driver)) return undefined
    this.#list = undefined
    if (row.bySource.size > 0) {
      row.merged = merge([...row.bySource.values()])
      return undefined
    }
    this.#rows.delete(id)
    return row.merged
  }
}

function merge(views: readonly Enclosure[]): Enclosure {
  const merged: Record<string, unknown> = {}
  for (const view of views) for (const [field, value] of Object.entries(view)) merged[field] ??= value
  return Object.freeze(merged) as unknown as Enclosure
}
