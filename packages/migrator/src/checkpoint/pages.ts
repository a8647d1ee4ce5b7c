/** The unit that checkpoints in memory share. */
export const pageBytes: number = 2 ** 18

/** The bytes of one part, in pages of one size; once full they are never written again, so checkpoints can share them. */
export class Pages {
  readonly #byteLength: number
  readonly #pages: Uint8Array[] = []
  #end = 0

  /** `byteLength`: all that will come. */
  constructor(byteLength: number) {
    this.#byteLength = byteLength
  }

  get pages(): readonly Uint8Array[] {
    return this.#pages
  }

  append(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.byteLength;) {
      const within = this.#end % pageBytes
      if (within === 0) this.#pages.push(new Uint8Array(Math.min(pageBytes, this.#byteLength - this.#end)))
      const page = this.#pages.at(-1) as Uint8Array
      const piece = bytes.subarray(at, at + page.byteLength - within)
      page.set(piece, within)
      this.#end += piece.byteLength
      at += piece.byteLength
    }
  }

  /** Takes the page at this place over from another checkpoint: how long it is, or 0 where it cannot be. */
  share(from: Pages, mostBytes: number): number {
    if (this.#end % pageBytes !== 0) return 0
    const page = from.#pages[this.#end / pageBytes]
    const byteLength = Math.min(pageBytes, this.#byteLength - this.#end)
    if (page?.byteLength !== byteLength || byteLength > mostBytes) return 0
    this.#pages.push(page)
    this.#end += byteLength
    return byteLength
  }
}
