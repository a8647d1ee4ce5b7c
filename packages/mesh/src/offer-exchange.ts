import type { ComputeTarget, EGpuError } from '@egpu/core'
import type { Refusal } from './control/control-plane.ts'
import type { PeerConnection, PeerConnections } from './control/peer-connection.ts'
import { readOffer } from './offers.ts'

interface OfferExchangeOptions {
  readonly isVisitor: boolean
  readonly targets: readonly ComputeTarget[]
  onOffer(peerId: string, targets: ReturnType<typeof readOffer>): void
  onRefusal(refusal: Refusal): void
}

const answerMs = 10_000

/** Tells peers what this host offers, and hears what they do. */
export class OfferExchange {
  readonly #options: OfferExchangeOptions
  #targets: readonly ComputeTarget[]

  constructor(options: OfferExchangeOptions) {
    this.#options = options
    this.#targets = options.targets
  }

  serve(control: PeerConnections): void {
    control.handle('mesh.targets', (body, { connection }) => this.#take(connection.peerId, body))
    control.handle('mesh.offered', () => this.#targets)
  }

  /** Replaces what was offered before. */
  offer(targets: readonly ComputeTarget[], connections: readonly PeerConnection[]): void {
    this.#targets = targets
    for (const connection of connections) this.exchange(connection)
  }

  /** Members tell each other what they offer; a visitor has to ask. */
  exchange(connection: PeerConnection): void {
    const { peerId, link } = connection
    const signal = AbortSignal.timeout(answerMs)
    if (this.#options.isVisitor) {
      connection
        .request('mesh.offered', undefined, { signal })
        .then((body) => this.#take(peerId, body))
        .catch(() => {})
      return
    }
    connection.request('mesh.targets', this.#targets, { signal }).catch((error: unknown) => {
      this.#options.onRefusal({ address: link.address, peerId, error: error as EGpuError })
    })
  }

  #take(peerId: string, body: unknown): boolean {
    this.#options.onOffer(peerId, readOffer(body))
    return true
  }
}
