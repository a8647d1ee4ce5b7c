import { networkInterfaces } from 'node:os'
import type { ControlPlane } from './control/control-plane.ts'
import type { Dialer } from './discovery/dialer.ts'
import type { Discovery } from './discovery/discovery.ts'
import type { Diagnosis } from './doctor/diagnosis.ts'
import type { Topology } from './doctor/topology.ts'
import type { Machine } from './links/machine.ts'
import type { LinkWatch } from './measure/link-watch.ts'
import type { Members } from './members.ts'
import type { Neighbours } from './neighbours.ts'

/** Cables are looked at again this often: what they trained to changes without any event. */
const lookEveryMs = 5_000

interface LookoutOptions {
  readonly machine: Machine
  readonly watch: LinkWatch
  readonly discovery: Discovery
  readonly dialer: Dialer
  readonly neighbours: Neighbours
  readonly members: Members
  readonly diagnosis: Diagnosis
  readonly topology: Topology
}

/** Looks at this machine's cables and interfaces, now and then and whenever something changed, and has all follow. */
export class Lookout {
  readonly #options: LookoutOptions
  #plane: ControlPlane | undefined
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void> | undefined
  #looksAgain = false
  #isClosed = false

  constructor(options: LookoutOptions) {
    this.#options = options
  }

  /** Looks for the first time, before there is anything to compare with. */
  async begin(plane: ControlPlane): Promise<void> {
    const { machine, watch } = this.#options
    this.#plane = plane
    await machine.look()
    watch.follow(machine.followed)
  }

  /** From now on all follow. */
  start(): void {
    if (this.#isClosed) return
    const { machine, discovery } = this.#options
    discovery.setInterfaces(machine.addresses)
    this.#timer = setInterval(() => this.#look(), lookEveryMs)
    this.#timer.unref()
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#timer)
  }

  /** First the links that just broke, then the slower look at everything. */
  networkChanged(withoutCarrier: ReadonlySet<string>): void {
    this.#options.machine.withoutCarrier = withoutCarrier
    const here = new Set(
      Object.entries(networkInterfaces()).flatMap(([name, entries = []]) =>
        entries.flatMap(({ address }) => [address, `${address}%${name}`]),
      ),
    )
    for (const channel of this.#plane?.connections() ?? [])
      if (!here.has(channel.link.localAddress) || withoutCarrier.has(channel.link.interfaceName ?? ''))
        channel.close('link-down', `${channel.link.interfaceName ?? 'the interface'} lost its carrier or was removed`)
    this.#look()
  }

  #look(): void {
    this.#looksAgain = this.#looking !== undefined
    this.#looking ??= this.#lookNow().finally(() => {
      this.#looking = undefined
      if (this.#looksAgain && !this.#isClosed) this.#look()
    })
  }

  async #lookNow(): Promise<void> {
    const { machine, watch, discovery, dialer, neighbours, members, diagnosis, topology } = this.#options
    const before = new Map(machine.addresses.map(({ interfaceName, key }) => [interfaceName, key]))
    await machine.look()
    if (this.#isClosed || this.#plane === undefined) return
    const { addresses, bridgedInterfaces } = machine
    const now = new Map(addresses.map(({ interfaceName, key }) => [interfaceName, key]))
    for (const [name, key] of before) if (now.get(name) !== key) this.#forgetInterface(name)
    watch.follow(machine.followed)
    discovery.setInterfaces(addresses)
    if (addresses.some(({ interfaceName, key }) => before.get(interfaceName) !== key)) dialer.hurry()
    neighbours.pursue()
    for (const channel of this.#plane.connections()) members.refresh(channel)
    diagnosis.update()
    // Peers are asked for this, and the next look does not wait for them.
    void topology.refresh(this.#plane, bridgedInterfaces).then(() => diagnosis.update())
  }

  #forgetInterface(interfaceName: string): void {
    const { dialer, neighbours, members } = this.#options
    dialer.forgetInterface(interfaceName)
    neighbours.forgetInterface(interfaceName)
    members.broken.delete(interfaceName)
  }
}
