import type { SimGpuDescription } from './descriptions.ts'
import type { SimCard } from './sim-card.ts'

/** What a cable trains down to; a number left out stays as it is. */
export interface Downtrained {
  readonly lanes?: number | undefined
  readonly gbpsPerLane?: number | undefined
}

/** A box of the simulated machine, with the hands on its cable. */
export interface SimEnclosure {
  /** Unique id of its router. */
  readonly id: string
  readonly name: string | undefined
  /** Where it is plugged in; `undefined` while it is not. */
  readonly port: string | undefined
  readonly authorized: boolean
  readonly gpus: readonly SimCard[]
  /** Plugs the cable in, into any free port by default. Throws `TypeError` when it is plugged in or the port is taken. */
  plug(options?: { readonly port?: string | undefined }): void
  /** Pulls the cable without a word. Does nothing when it is out already. */
  yank(): void
  /** Pulls and plugs the cable `times` times, `everyMs` apart; it ends up as it was. */
  flap(options?: { readonly times?: number | undefined; readonly everyMs?: number | undefined }): Promise<void>
  /** Trains the cable down: to half the rate per lane unless told otherwise. Not for OCuLink. */
  degradeLink(trained?: Downtrained): void
  restoreLink(): void
  /** Lets PCI Express through, as a person does in a settings dialog. */
  authorize(): void
  /** Takes that back: its GPUs vanish without warning. */
  deauthorize(): void
  addGpu(description?: SimGpuDescription): SimCard
}
