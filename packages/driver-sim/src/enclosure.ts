import { ThunderboltSpeed, Transport } from '@egpu/core'
import type { Enclosure, LinkReport, TrainedLanes, Verdict } from '@egpu/core'
import { Card } from './card.ts'
import type { CardPlace, MachineContext } from './context.ts'
import type { SimEnclosureDescription, SimGpuDescription } from './descriptions.ts'
import { withModel } from './enclosure-model.ts'
import { fullTraining, negotiated, pathOf } from './link.ts'
import type { CableState, SlotState } from './link.ts'
import type { Downtrained, SimEnclosure } from './sim-enclosure.ts'

/** What an enclosure needs of the host it is plugged into. */
export interface HostPorts {
  readonly speed: ThunderboltSpeed
  /** Takes `wanted`, or any free port; throws `TypeError` when it is taken. */
  take(wanted: string | undefined): string
  free(port: string): void
}

export class Box implements SimEnclosure {
  readonly id: string
  readonly description: SimEnclosureDescription
  readonly cards: Card[] = []
  port: string | undefined
  authorized: boolean
  readonly #machine: MachineContext
  readonly #ports: HostPorts
  readonly #onCard: (card: Card) => void
  #trained: TrainedLanes | undefined

  constructor(
    description: SimEnclosureDescription,
    machine: MachineContext,
    ports: HostPorts,
    onCard: (card: Card) => void,
  ) {
    this.description = withModel(description)
    this.#machine = machine
    this.#ports = ports
    this.#onCard = onCard
    this.id = description.id ?? uuidFrom(machine.random.hex(32))
    this.authorized = description.authorized ?? true
    for (const gpu of this.description.gpus ?? []) this.addGpu(gpu)
  }

  get name(): string | undefined {
    return this.description.name
  }

  get gpus(): readonly Card[] {
    return this.cards
  }

  /** An OCuLink box is a cable to a slot: there is no router for the host to see. */
  get hasRouter(): boolean {
    return this.#transport === Transport.Thunderbolt || this.#transport === Transport.Usb4
  }

  get speed(): ThunderboltSpeed {
    return negotiated(this.#ports.speed, this.description.speed ?? ThunderboltSpeed.TB3)
  }

  plug({ port }: { readonly port?: string | undefined } = {}): void {
    if (this.port !== undefined) throw new TypeError(`${this.#label} is plugged into ${this.port} already`)
    this.port = this.#ports.take(port)
    this.#trained = undefined
    this.authorized = this.description.authorized ?? true
    this.#changed()
    if (this.#open) for (const card of this.cards) void card.arrive()
  }

  yank(): void {
    if (this.port === undefined) return
    const reason = `the cable of ${this.#label} was pulled`
    this.#ports.free(this.port)
    this.port = undefined
    this.#loseCards(reason)
    if (this.hasRouter) this.#machine.emit({ type: 'enclosure-removed', id: this.id })
  }

  async flap({
    times = 3,
    everyMs = 100,
  }: { readonly times?: number | undefined; readonly everyMs?: number | undefined } = {}): Promise<void> {
    const { port } = this
    if (port === undefined) throw new TypeError(`${this.#label} is not plugged in`)
    for (let round = 0; round < times; round += 1) {
      this.yank()
      await this.#machine.clock.sleep(everyMs)
      this.plug({ port })
      await this.#machine.clock.sleep(everyMs)
    }
  }

  degradeLink(trained: Downtrained = {}): void {
    if (!this.hasRouter) throw new TypeError(`${this.#label} has no Thunderbolt link to train down`)
    const full = fullTraining(this.speed)
    const { lanes = full.lanes, gbpsPerLane = trained.lanes === undefined ? full.gbpsPerLane / 2 : full.gbpsPerLane } =
      trained
    this.#train({ lanes, gbpsPerLane })
  }

  restoreLink(): void {
    this.#train(undefined)
  }

  authorize(): void {
    if (this.authorized) return
    this.authorized = true
    if (this.port === undefined) return
    this.#changed()
    for (const card of this.cards) void card.arrive()
  }

  deauthorize(): void {
    if (!this.authorized) return
    this.authorized = false
    if (this.port === undefined) return
    this.#loseCards(`${this.#label} was deauthorized`)
    this.#changed()
  }

  addGpu(description: SimGpuDescription = {}): Card {
    const card = new Card(description, this.#placeOf(this.cards.length), this.#machine)
    this.#onCard(card)
    this.cards.push(card)
    if (this.#open) void card.arrive()
    return card
  }

  observe(): Enclosure {
    const { vendorName, thunderboltVendorId, thunderboltDeviceId, firmwareVersion, powerDeliveryWatts } =
      this.description
    const { sticker, trained, downgrade } = pathOf('', this.#slot, this.#slot, this.#cable)
    return Object.freeze({
      id: this.id,
      name: this.name,
      vendorName,
      thunderboltVendorId,
      thunderboltDeviceId,
      firmwareVersion,
      powerDeliveryWatts,
      port: this.port,
      authorized: this.authorized,
      generation: linuxGenerations[this.speed],
      link: Object.freeze({ sticker, trained: Object.freeze(trained), downgrade: Object.freeze(downgrade) }),
      seenBy: this.#machine.driverName,
    })
  }

  get #transport(): Transport {
    return this.description.transport ?? Transport.Thunderbolt
  }

  get #label(): string {
    return this.name ?? `enclosure ${this.id}`
  }

  get #cable(): CableState {
    return { speed: this.speed, trained: this.#trained ?? fullTraining(this.speed) }
  }

  get #slot(): SlotState {
    const fast = !this.hasRouter || this.speed === ThunderboltSpeed.TB5
    const { slotLanes = 4, slotGtPerSecond = fast ? 16 : 8 } = this.description
    return { lanes: slotLanes, gtPerSecond: slotGtPerSecond }
  }

  get #open(): boolean {
    return this.port !== undefined && (this.authorized || !this.hasRouter)
  }

  #changed(): void {
    if (this.port !== undefined && this.hasRouter) {
      this.#machine.emit({ type: 'enclosure-observed', enclosure: this.observe() })
    }
  }

  #train(trained: TrainedLanes | undefined): void {
    this.#trained = trained
    this.#changed()
    for (const card of this.cards) card.changed()
  }

  /** The first sign goes out for every card before the first loss does. */
  #loseCards(reason: string): void {
    for (const card of this.cards) card.announceLeaving(reason)
    for (const card of this.cards) card.cutOff({ reason: 'unplugged', message: reason })
    for (const card of this.cards) card.leaveBus(false)
  }

  #link(pciAddress: string, card: SlotState, cable: CableState): LinkReport {
    return pathOf(pciAddress, this.#slot, card, this.hasRouter ? cable : undefined)
  }

  #placeOf(slot: number): CardPlace {
    const card = (): SlotState => {
      const { lanes = 16, gtPerSecond = 16 } = this.cards[slot]?.description ?? {}
      return { lanes, gtPerSecond }
    }
    const speedOf = (cable: CableState): number => this.#link('', card(), cable).effectiveGBps?.toDevice ?? 0
    return {
      external: true,
      enclosureId: this.hasRouter ? this.id : undefined,
      slot: this.hasRouter ? slot : undefined,
      surroundings: () => (this.hasRouter ? { thunderboltPort: this.port, thunderboltSpeed: this.speed } : {}),
      link: (pciAddress) => this.#link(pciAddress, card(), this.#cable),
      linkRatio: () => speedOf(this.#cable) / speedOf({ ...this.#cable, trained: fullTraining(this.speed) }),
      verdict: () => this.#verdict(),
    }
  }

  #verdict(): Verdict {
    if (!this.hasRouter) {
      // Nothing tells such a cable from a slot inside the machine for certain.
      return {
        conclusion: 'external',
        confidence: 0.6,
        transport: this.#transport,
        evidence: [{ signal: 'surprise-hotplug-slot', value: true, weight: 0.6, points: 'external' }],
      }
    }
    return {
      conclusion: 'external',
      confidence: 1,
      transport: this.#transport,
      evidence: [{ signal: 'thunderbolt-router', value: this.id, weight: 1, points: 'external' }],
    }
  }
}

/** As the `generation` attribute of Linux counts: both USB4 versions are 4. */
const linuxGenerations: Readonly<Record<ThunderboltSpeed, number>> = {
  [ThunderboltSpeed.TB1]: 1,
  [ThunderboltSpeed.TB2]: 2,
  [ThunderboltSpeed.TB3]: 3,
  [ThunderboltSpeed.TB4]: 4,
  [ThunderboltSpeed.TB5]: 4,
}

function uuidFrom(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
