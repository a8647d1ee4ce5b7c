import { networkInterfaces } from 'node:os'
import type { Finding } from '@egpu/core'
import type { Machine } from '../links/machine.ts'
import type { Members } from '../members.ts'
import type { Neighbours } from '../neighbours.ts'
import { meshFindings } from './findings.ts'
import type { Topology } from './topology.ts'

export interface DiagnosisOptions {
  readonly nodeId: string
  readonly machine: Machine
  readonly members: Members
  readonly neighbours: Neighbours
  readonly topology: Topology
  /** Why it cannot be read who is paired. */
  readonly unreadablePeers: () => string | undefined
  readonly onChanged: (findings: readonly Finding[]) => void
}

const mostCopies = 16

/** What a person should know, kept up to date: gathers what the parts of the mesh know and tells when the findings change. */
export class Diagnosis {
  readonly #options: DiagnosisOptions
  readonly #copies = new Set<string>()
  #findings: readonly Finding[] = []
  #text = '[]'

  constructor(options: DiagnosisOptions) {
    this.#options = options
  }

  get findings(): readonly Finding[] {
    return this.#findings
  }

  /** Two machines with one key were met. */
  copied(message: string): void {
    if (this.#copies.size >= mostCopies) return
    this.#copies.add(message)
    this.update()
  }

  /** To be called after every change that may matter. */
  update(): void {
    const { nodeId, machine, members, neighbours, topology, unreadablePeers, onChanged } = this.#options
    const findings = meshFindings({
      inventory: machine.inventory,
      network: machine.network,
      peers: members.peers,
      neighbours: neighbours.unpaired,
      withoutLinkLocal: this.#withoutLinkLocal(),
      broken: [...members.broken].map(([interfaceName, how]) => ({ interfaceName, how })),
      unheard: members.unheard,
      bridgedCables: topology.bridgedCables(nodeId),
      copies: [...this.#copies],
      unreadablePeers: unreadablePeers(),
    })
    const text = JSON.stringify(findings)
    if (text === this.#text) return
    this.#findings = findings
    this.#text = text
    onChanged(findings)
  }

  /** Interfaces of cables that run and have no IPv6 address of their own. */
  #withoutLinkLocal(): readonly string[] {
    const { inventory, addresses, withoutCarrier } = this.#options.machine
    const spoken = new Set(addresses.map(({ interfaceName }) => interfaceName))
    const running = new Set(Object.keys(networkInterfaces()))
    return inventory.links
      .flatMap(({ interfaceName }) => interfaceName ?? [])
      .filter((name) => running.has(name) && !withoutCarrier.has(name) && !spoken.has(name))
  }
}
