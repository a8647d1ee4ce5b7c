import { loadPeers, removePeer, savePeer, type PairedPeer } from './mesh-directory.ts'

/** Another program of this host may pair too: its word is heard after so long. A flood of strangers reads no file. */
const rememberMs = 1_000

/** Which hosts this one is paired with, by its folder or by whom the program names. */
export class Trust {
  readonly #directory: string
  readonly #isPaired: ((peerId: string) => boolean) | undefined
  #ids: ReadonlySet<string> = new Set()
  #trouble: string | undefined
  #readAtMs = Number.NEGATIVE_INFINITY

  constructor(directory: string, isPaired: ((peerId: string) => boolean) | undefined) {
    this.#directory = directory
    this.#isPaired = isPaired
  }

  has(peerId: string): boolean {
    if (this.#isPaired !== undefined) return this.#isPaired(peerId)
    this.#refresh()
    return this.#ids.has(peerId)
  }

  /** Why it cannot be read who is paired: nobody is then. */
  get trouble(): string | undefined {
    if (this.#isPaired === undefined) this.#refresh()
    return this.#trouble
  }

  add(peer: PairedPeer): void {
    savePeer(this.#directory, peer)
    this.#readAtMs = Number.NEGATIVE_INFINITY
  }

  /** Whether it was there. */
  remove(peerId: string): boolean {
    this.#readAtMs = Number.NEGATIVE_INFINITY
    return removePeer(this.#directory, peerId)
  }

  #refresh(): void {
    const now = performance.now()
    if (now - this.#readAtMs < rememberMs) return
    this.#readAtMs = now
    try {
      this.#ids = new Set(loadPeers(this.#directory).map(({ id }) => id))
      this.#trouble = undefined
    } catch (error) {
      this.#ids = new Set()
      this.#trouble = (error as Error).message
    }
  }
}
