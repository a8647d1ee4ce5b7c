import type { DialerTarget } from './discovery/dialer.ts'
import type { Sighting } from './discovery/discovery.ts'
import type { Neighbour } from './peer.ts'

export interface NeighboursOptions {
  readonly nodeId: string
  readonly instance: string
  readonly hostTag: string
  readonly isPaired: (peerId: string) => boolean
  /** To be connected to, for as long as it is there. */
  readonly want: (key: string, target: DialerTarget) => void
  /** Heard of for the first time on this interface; it may not have heard of this host. */
  readonly onNew: (neighbour: Neighbour) => void
}

/** More hosts on one cable are somebody's joke, which keeps nobody on another cable from being heard. */
const mostPerInterface = 64
/** Hosts say every 20 s that they are there when asked. Whoever was silent for longer makes room. */
const presentMs = 60_000

interface Heard {
  readonly neighbour: Neighbour
  readonly atMs: number
}

/** Whoever was heard of on the cables: claims, which a connection has to prove. */
export class Neighbours {
  readonly #options: NeighboursOptions
  /** By interface, then by who it says to be; the longest unheard first. */
  readonly #heard = new Map<string, Map<string, Heard>>()

  constructor(options: NeighboursOptions) {
    this.#options = options
  }

  get all(): readonly Neighbour[] {
    return [...this.#heard.values()].flatMap((heard) => [...heard.values()].map(({ neighbour }) => neighbour))
  }

  get unpaired(): readonly Neighbour[] {
    return this.all.filter(({ id }) => !this.#options.isPaired(id))
  }

  sighted({ nodeId: id, instance, hostTag, address, interfaceName, port, pairing }: Sighting): void {
    const { nodeId, isPaired, onNew } = this.#options
    if (instance === this.#options.instance) return
    // Another process of this host, not a copy of it.
    if (id === nodeId && hostTag === this.#options.hostTag) return
    const isPeer = id === nodeId || isPaired(id)
    const heard = this.#heard.get(interfaceName) ?? new Map<string, Heard>()
    const key = `${id} ${instance}`
    const isNew = !heard.has(key)
    if (isNew && !makeRoom(heard, isPeer)) return
    const neighbour: Neighbour = { id, address, interfaceName, port, pairing }
    heard.delete(key)
    heard.set(key, { neighbour, atMs: performance.now() })
    this.#heard.set(interfaceName, heard)
    if (isPeer) this.#want(key, neighbour)
    if (isNew) onNew(neighbour)
  }

  /** After a pairing: those who count as peers now are connected to. */
  pursue(): void {
    for (const heard of this.#heard.values())
      for (const [key, { neighbour }] of heard) if (this.#options.isPaired(neighbour.id)) this.#want(key, neighbour)
  }

  forgetInterface(interfaceName: string): void {
    this.#heard.delete(interfaceName)
  }

  #want(key: string, { id, address, interfaceName, port }: Neighbour): void {
    this.#options.want(`${interfaceName} ${key} ${port}`, { host: address, port, peerId: id, interfaceName })
  }
}

/** A stranger does not push out whoever was heard a moment ago; a peer, or who says to be one, does. */
function makeRoom(heard: Map<string, Heard>, isPeer: boolean): boolean {
  const [oldest] = heard
  if (oldest === undefined || heard.size < mostPerInterface) return true
  const [key, { atMs }] = oldest
  if (!isPeer && performance.now() - atMs < presentMs) return false
  return heard.delete(key)
}
