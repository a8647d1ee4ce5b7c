import { linuxHostNetwork, type HostNetwork } from '../doctor/host-network.ts'
import type { MeshOptions } from '../mesh-options.ts'
import { emptyInventory, type CableInventory, type CableLink } from './cable-link.ts'
import { linuxInventory } from './linux.ts'
import { localAddresses, type LocalAddress } from './local-addresses.ts'

/** This host's cables, bridges, routes and addresses, as they were when it was last looked. */
export class Machine {
  inventory: CableInventory = emptyInventory
  network: HostNetwork = { defaultRoutes: [], bridges: [] }
  /** Of the interfaces to speak on: those of cables, and all where networks are wanted too. */
  addresses: readonly LocalAddress[] = []
  /** Interfaces that lost their carrier, and may be listed all the same for a moment. */
  withoutCarrier: ReadonlySet<string> = new Set()
  readonly #options: Pick<MeshOptions, 'inventory' | 'hostNetwork' | 'lan'>

  constructor(options: Pick<MeshOptions, 'inventory' | 'hostNetwork' | 'lan'>) {
    this.#options = options
  }

  async look(): Promise<void> {
    const { inventory = defaultInventory, hostNetwork = defaultHostNetwork, lan = false } = this.#options
    try {
      ;[this.inventory, this.network] = await Promise.all([inventory(), hostNetwork()])
    } catch {
      // What was known stays; the next look may succeed.
    }
    this.addresses = localAddresses().filter(
      ({ interfaceName }) =>
        !this.withoutCarrier.has(interfaceName) && (lan || this.cableOf(interfaceName) !== undefined),
    )
  }

  /** Interfaces whose carrier matters: of cables, and those that are spoken on. */
  get followed(): readonly string[] {
    const cables = this.inventory.links.flatMap(({ interfaceName }) => interfaceName ?? [])
    return [...new Set([...cables, ...this.addresses.map(({ interfaceName }) => interfaceName)])]
  }

  /** A bridge that has one cable among its members is that cable, as with the Thunderbolt Bridge of a Mac. */
  cableOf(interfaceName: string | undefined): CableLink | undefined {
    if (interfaceName === undefined) return undefined
    const direct = this.inventory.links.find((link) => link.interfaceName === interfaceName)
    if (direct !== undefined) return direct
    const members = this.network.bridges.find(({ name }) => name === interfaceName)?.members ?? []
    const behind = this.inventory.links.filter((link) => members.includes(link.interfaceName ?? ''))
    return behind.length === 1 ? behind[0] : undefined
  }

  /** Bridges that join something, and what they join. */
  get bridgedInterfaces(): ReadonlySet<string> {
    const bridges = this.network.bridges.filter(({ members }) => members.length > 1)
    return new Set(bridges.flatMap(({ name, members }) => [name, ...members]))
  }
}

function defaultInventory(): CableInventory {
  return process.platform === 'linux' ? linuxInventory() : emptyInventory
}

function defaultHostNetwork(): HostNetwork {
  return process.platform === 'linux' ? linuxHostNetwork() : { defaultRoutes: [], bridges: [] }
}
