import type { PeerConnections } from '../control/peer-connection.ts'
import { asShape, asText } from '../shape.ts'
import type { BridgedCable } from './bridge-cycle.ts'

const askMs = 2_000
const mostCables = 64

interface CableAtHost {
  /** Id of the link, the same at both ends. */
  readonly id: string
  readonly isBridged: boolean
}

/** Which ends of which cables are members of bridges, at this host and, as they say, at its peers. */
export class Topology {
  #own: readonly CableAtHost[] = []
  readonly #peers = new Map<string, readonly CableAtHost[]>()

  /** What peers get when they ask. */
  report(): readonly CableAtHost[] {
    return this.#own
  }

  /** Looks at the own ends; asks peers only while this host bridges something, since it is on no ring otherwise. */
  async refresh(control: PeerConnections, bridged: ReadonlySet<string>): Promise<void> {
    const open = control.connections()
    const cables = open.filter(({ link }) => link.kind === 'thunderbolt')
    this.#own = cables.map(({ link }) => ({ id: link.id, isBridged: bridged.has(link.interfaceName ?? '') }))
    if (!this.#own.some(({ isBridged }) => isBridged)) {
      this.#peers.clear()
      return
    }
    await Promise.all(
      [...new Set(open.map(({ peerId }) => peerId))].map(async (peerId) => {
        try {
          const answer = await control.request(peerId, 'mesh.topology', undefined, {
            signal: AbortSignal.timeout(askMs),
          })
          this.#peers.set(peerId, readReport(answer))
        } catch {
          this.#peers.delete(peerId)
        }
      }),
    )
  }

  forget(peerId: string): void {
    this.#peers.delete(peerId)
  }

  /** Cables that both hosts at their ends say are bridged there. */
  bridgedCables(nodeId: string): readonly BridgedCable[] {
    const ends = new Map<string, string[]>()
    for (const [host, cables] of [[nodeId, this.#own] as const, ...this.#peers])
      for (const { id, isBridged } of cables) if (isBridged) ends.set(id, [...(ends.get(id) ?? []), host])
    return [...ends].flatMap(([id, [a, b]]) =>
      a !== undefined && b !== undefined ? [{ id, hosts: [a, b] as const }] : [],
    )
  }
}

function readReport(value: unknown): readonly CableAtHost[] {
  if (!Array.isArray(value)) return []
  return (value as unknown[]).slice(0, mostCables).flatMap((entry) => {
    const shape = asShape(entry)
    const id = asText(shape?.['id'])
    return id === undefined ? [] : [{ id, isBridged: shape?.['isBridged'] === true }]
  })
}
