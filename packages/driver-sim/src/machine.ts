import { ThunderboltSpeed } from '@egpu/core'
import type { Clock, Finding, RuntimeKind, Verdict } from '@egpu/core'
import type { DriverEvent, DriverSnapshot } from '@egpu/core/driver'
import { Card } from './card.ts'
import type { CardPlace, MachineContext } from './context.ts'
import type { SimEnclosureDescription, SimGpuDescription, SimMachineDescription } from './descriptions.ts'
import { Box } from './enclosure.ts'
import { pathOf } from './link.ts'
import { HostPortList } from './ports.ts'
import type { Random } from './random.ts'
import type { SimCard } from './sim-card.ts'
import type { SimEnclosure } from './sim-enclosure.ts'

/** The simulated machine: what is in it, and hands for all of it. Everything happens at once unless `timing` says else. */
export interface SimMachine {
  readonly clock: Clock
  readonly enclosures: readonly SimEnclosure[]
  /** All GPUs, plugged in or not. */
  readonly gpus: readonly SimCard[]
  /** Throws `TypeError` when an id is taken. */
  addEnclosure(description?: SimEnclosureDescription): SimEnclosure
  /** An internal GPU. Throws `TypeError` when its id is taken. */
  addGpu(description?: SimGpuDescription): SimCard
  /** By id; throws `TypeError` when there is none. */
  enclosure(id: string): SimEnclosure
  /** By key; throws `TypeError` when there is none. */
  gpu(key: string): SimCard
  /** Watchers lose what they have not read yet and see everything afresh, as after a kernel buffer overflow. */
  overflow(): void
}

export interface MachineOptions extends SimMachineDescription {
  readonly driverName: string
  readonly clock: Clock
  readonly random: Random
  readonly runtimes: readonly RuntimeKind[]
}

/** What a watch does with what happens. */
export interface Watcher {
  event(event: DriverEvent): void
  overflow(): void
}

export class Machine implements SimMachine {
  readonly clock: Clock
  readonly watchers: Set<Watcher> = new Set<Watcher>()
  readonly #boxes = new Map<string, Box>()
  readonly #cards = new Map<string, Card>()
  readonly #ports: HostPortList
  readonly #context: MachineContext
  /** One per enclosure that waits for a person. */
  #findings: readonly Finding[] = Object.freeze([])

  constructor({
    driverName,
    clock,
    random,
    runtimes,
    timing = {},
    ambientCelsius = 25,
    ...description
  }: MachineOptions) {
    this.clock = clock
    this.#ports = new HostPortList(description.hostSpeed ?? ThunderboltSpeed.TB4)
    let plugs = 0
    let pids = 1000
    const { watchers } = this
    this.#context = {
      get watched() {
        return watchers.size > 0
      },
      driverName,
      clock,
      random,
      timing,
      ambientCelsius,
      emit: (event) => this.#emit(event),
      nextPciAddress: () => pciAddress((plugs += 1)),
      nextPid: () => (pids += 1),
      checkRuntime: (runtime) => {
        if (runtimes.includes(runtime)) return
        throw new TypeError(`simDriver was not told of the runtime ${runtime}: name it in its option runtimes`)
      },
    }
    for (const gpu of description.gpus ?? []) this.addGpu(gpu)
    for (const enclosure of description.enclosures ?? []) this.addEnclosure(enclosure)
  }

  get enclosures(): readonly Box[] {
    return [...this.#boxes.values()]
  }

  get gpus(): readonly Card[] {
    return [...this.#cards.values()]
  }

  addEnclosure(description: SimEnclosureDescription = {}): Box {
    const box = new Box(description, this.#context, this.#ports, (card) => this.#register(card))
    if (this.#boxes.has(box.id)) throw new TypeError(`there is an enclosure ${box.id} already`)
    this.#boxes.set(box.id, box)
    const { plugged = false } = description
    if (plugged !== false) box.plug({ port: plugged === true ? undefined : plugged })
    return box
  }

  addGpu(description: SimGpuDescription = {}): Card {
    const card = new Card(description, internalPlace(description), this.#context)
    this.#register(card)
    void card.arrive()
    return card
  }

  enclosure(id: string): Box {
    const box = this.#boxes.get(id)
    if (box === undefined) throw new TypeError(`there is no enclosure ${id}`)
    return box
  }

  gpu(key: string): Card {
    const card = this.#cards.get(key)
    if (card === undefined) throw new TypeError(`there is no GPU ${key}`)
    return card
  }

  overflow(): void {
    for (const watcher of this.watchers) watcher.overflow()
  }

  // --- what the driver reads ---

  find(key: string): Card | undefined {
    const card = this.#cards.get(key)
    return card?.listed === true ? card : undefined
  }

  /** The enclosure a card sits in; `undefined` for an internal one. */
  boxOf(card: Card): Box | undefined {
    return this.enclosures.find((box) => box.cards.includes(card))
  }

  snapshot(): DriverSnapshot {
    return Object.freeze({
      devices: Object.freeze(this.gpus.filter((card) => card.listed).map((card) => card.observe())),
      enclosures: Object.freeze(this.#visibleBoxes().map((box) => box.observe())),
      findings: this.#findings,
    })
  }

  #visibleBoxes(): Box[] {
    return this.enclosures.filter((box) => box.port !== undefined && box.hasRouter)
  }

  #register(card: Card): void {
    if (this.#cards.has(card.key)) throw new TypeError(`there is a GPU ${card.key} already`)
    this.#cards.set(card.key, card)
  }

  #emit(event: DriverEvent): void {
    for (const watcher of this.watchers) watcher.event(event)
    if (event.type === 'enclosure-observed') this.#review(event.enclosure.id, event.enclosure.authorized === false)
    if (event.type === 'enclosure-removed') this.#review(event.id, false)
  }

  #review(enclosureId: string, shut: boolean): void {
    const known = this.#findings.some((finding) => finding.enclosureId === enclosureId)
    if (known === shut) return
    const others = this.#findings.filter((finding) => finding.enclosureId !== enclosureId)
    this.#findings = Object.freeze(shut ? [...others, unauthorized(this.enclosure(enclosureId))] : others)
    this.#emit({ type: 'findings-observed', findings: this.#findings })
  }
}

function unauthorized(box: Box): Finding {
  return Object.freeze({
    code: 'enclosure-unauthorized',
    severity: 'error',
    enclosureId: box.id,
    seen: `${box.name ?? `Enclosure ${box.id}`} is connected, but the host does not let PCI Express through.`,
    advice: 'Allow it in the system settings.',
    evidence: Object.freeze([{ source: 'authorized', value: '0' }]),
  } as const)
}

const builtIn: Verdict = Object.freeze({
  conclusion: 'internal',
  confidence: 1,
  evidence: Object.freeze([Object.freeze({ signal: 'soldered-slot', value: true, weight: 1, points: 'internal' })]),
} as const)

function internalPlace({ lanes = 16, gtPerSecond = 16 }: SimGpuDescription): CardPlace {
  return {
    external: false,
    enclosureId: undefined,
    slot: undefined,
    surroundings: () => ({}),
    link: (pciAddress) => pathOf(pciAddress, { lanes, gtPerSecond }, { lanes, gtPerSecond }),
    linkRatio: () => 1,
    verdict: () => builtIn,
  }
}

/** A new bus at every plug, as real hosts do; a new domain when the buses of one are used up. */
function pciAddress(plugs: number): string {
  const bus = 2 + (plugs % 250)
  const domain = Math.floor(plugs / 250) % 0x10000
  return `${domain.toString(16).padStart(4, '0')}:${bus.toString(16).padStart(2, '0')}:00.0`
}
