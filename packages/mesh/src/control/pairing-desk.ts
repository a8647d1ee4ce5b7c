import type { TLSSocket } from 'node:tls'
import { openPairing, type PairingSelf, type PairingWindow } from './pairing.ts'
import type { PairedPeer } from '../identity/mesh-directory.ts'

interface PairingDeskOptions {
  readonly self: PairingSelf
  /** A window was opened or is over. */
  onWindow(): void
  onPaired(peer: PairedPeer): void
}

/** Has one pairing window open at a time, or none. */
export class PairingDesk {
  readonly #options: PairingDeskOptions
  #window: PairingWindow | undefined

  constructor(options: PairingDeskOptions) {
    this.#options = options
  }

  get isOpen(): boolean {
    return this.#window !== undefined
  }

  async open(): Promise<PairingWindow> {
    await this.close()
    const window = openPairing(this.#options.self)
    this.#window = window
    this.#options.onWindow()
    const end = (): void => {
      if (this.#window === window) this.#window = undefined
      this.#options.onWindow()
    }
    void window.paired.then((peer) => {
      end()
      this.#options.onPaired(peer)
    }, end)
    return window
  }

  /** Takes a connection of a host that wants to pair. */
  async accept(socket: TLSSocket): Promise<void> {
    if (this.#window === undefined) socket.destroy()
    else await this.#window.accept(socket)
  }

  async close(): Promise<void> {
    await this.#window?.close()
  }
}
