import createMdns, { type MulticastDNS } from 'multicast-dns'
import type { LocalAddress } from '../links/local-addresses.ts'
import { guardedSocket } from './guarded-socket.ts'
import { fromRecords, serviceName, toRecords, type Announcement } from './records.ts'

/** When to ask after an interface came up: addresses are often not usable at once (duplicate detection takes 1 to 2 s). */
const askAfterMs = [0, 50, 150, 400, 1_000, 2_000, 4_000] as const
/** How often to ask afterwards: for a host whose announcement was lost. */
const askEveryMs = 20_000
/** No host needs to hear the same more often. */
const speakEveryMs = 50

/** A host that was heard of over one interface. A claim, until a connection proves it. */
export interface Sighting extends Announcement {
  /** Where the packet came from, with its zone: to dial, it leaves by the same cable. */
  readonly address: string
  readonly interfaceName: string
}

export interface DiscoveryOptions {
  /** What to say of this host; a visitor only listens. */
  readonly announcement: () => Announcement | undefined
  readonly onSighting: (sighting: Sighting) => void
}

interface Ear {
  readonly interfaceName: string
  readonly mdns: MulticastDNS
  readonly timers: Set<NodeJS.Timeout>
  /** Says what this host is: now, or once it has been silent long enough. */
  speak(): void
}

/**
 * Finds hosts with multicast DNS over IPv6 link-local, one instance per interface, so that nothing depends on a LAN and
 * every answer says by which cable it came.
 */
export class Discovery {
  readonly #options: DiscoveryOptions
  readonly #ears = new Map<string, Ear>()

  constructor(options: DiscoveryOptions) {
    this.#options = options
  }

  /** Listens and speaks on exactly these interfaces; one that was made anew is begun anew. */
  setInterfaces(interfaces: readonly LocalAddress[]): void {
    const wanted = new Map(interfaces.map((entry) => [entry.key, entry]))
    for (const [key, ear] of this.#ears)
      if (!wanted.has(key)) {
        this.#ears.delete(key)
        hush(ear)
      }
    for (const [key, entry] of wanted) if (!this.#ears.has(key)) this.#ears.set(key, this.#open(entry))
  }

  /** Says anew what this host is: on one interface, or on all when something changed. */
  announce(interfaceName?: string): void {
    for (const ear of this.#ears.values())
      if (interfaceName === undefined || ear.interfaceName === interfaceName) ear.speak()
  }

  close(): void {
    for (const ear of this.#ears.values()) hush(ear)
    this.#ears.clear()
  }

  #open({ interfaceName, zone }: LocalAddress): Ear {
    const timers = new Set<NodeJS.Timeout>()
    const mdns = createMdns({
      socket: guardedSocket(zone),
      type: 'udp6',
      ip: `ff02::fb%${zone}`,
      interface: `::%${zone}`,
      bind: '::',
    })
    // An interface that goes away while it is used makes errors that the next look at the interfaces explains.
    mdns.on('warning', () => {})
    mdns.on('error', () => {})
    let spokeAt = Number.NEGATIVE_INFINITY
    let isDue = false
    const speak = (): void => {
      if (isDue) return
      const wait = spokeAt + speakEveryMs - performance.now()
      if (wait <= 0) {
        spokeAt = performance.now()
        this.#speak(mdns)
        return
      }
      isDue = true
      after(wait, timers, () => {
        isDue = false
        speak()
      })
    }
    mdns.on('query', ({ questions = [] }) => {
      if (questions.some(({ name }) => name.toLowerCase() === serviceName)) speak()
    })
    mdns.on('response', ({ answers = [], additionals = [] }, from) => {
      for (const announcement of fromRecords([...answers, ...additionals]))
        this.#options.onSighting({ ...announcement, address: from.address, interfaceName })
    })
    const ask = (): void => mdns.query([{ name: serviceName, type: 'PTR' }])
    for (const wait of askAfterMs)
      after(wait, timers, () => {
        // The socket is a member of the group only once the interface can be used; it tries again by itself every 5 s.
        ;(mdns as MulticastDNS & { update(): void }).update()
        ask()
        speak()
      })
    const timer = setInterval(ask, askEveryMs)
    timer.unref()
    timers.add(timer)
    return { interfaceName, mdns, timers, speak }
  }

  #speak(mdns: MulticastDNS): void {
    const announcement = this.#options.announcement()
    if (announcement === undefined) return
    const [pointer, ...others] = toRecords(announcement)
    mdns.respond({ answers: pointer === undefined ? [] : [pointer], additionals: others })
  }
}

function hush({ mdns, timers }: Ear): void {
  for (const timer of timers) clearTimeout(timer)
  mdns.destroy()
}

function after(ms: number, timers: Set<NodeJS.Timeout>, action: () => void): void {
  const timer = setTimeout(() => {
    timers.delete(timer)
    action()
  }, ms)
  timer.unref()
  timers.add(timer)
}
