import { loadPeers, removePeer, savePeer, type PairedPeer } from './mesh-directory.ts'

/** Another program of this host may pair too: its word is heard after so long. A flood of strangers reads no file. */
const rememberMs = 1_000

/** Which hosts this one is paired with, by its folder or by whom the program names. */
export class Trust {
  readonly #directory: string
  readonly #isPaired: ((peerId: string) => boolean) | undefined
  #ids: ReadonlySet<string> = new Set()
  #readAtMs = Number.NEGATIVE_INFINITY

  constructor(directory: string, isPaired: ((peerId: string) => boolean) | undefined) {
    this.#directory = directory
    this.#isPaired = isPaired
  }

  has(peerId: string): boolean {
    if (this.#isPaired !== undefined) return this.#isPaired(peerId)
    const now = performance.now()
    if (now - this.#readAtMs >= rememberMs) {
      this.#ids = this.#read()
      this.#readAtMs = now
    }
    return this.#ids.has(peerId)
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

  #read(): ReadonlySet<string> {
    try {
      return new Set(loadPeers(this.#directory).map(({ id }) => id))
    } catch {
      // A file that cannot be understood pairs nobody.
      return new Set()
    }
  }
}
