import type { AbortOptions, Clock } from '@egpu/core'
import { abort, assertOptions, offered, text } from '../arguments.ts'
import { readOffer } from '../offers.ts'
import type { Cluster, Entry, Lease } from '../ownership/cluster.ts'
import { states } from '../ownership/watch-states.ts'
import { asShape, asText } from '../shape.ts'
import { plainText } from '../text.ts'
import type { HostRegistry, RegisteredHost } from './host-registry.ts'

export interface ClusterRegistryOptions {
  readonly self: string
  readonly leaseSeconds: number
  readonly clock: Clock
}

const prefix = 'hosts/'
/** Of a lease: when it is kept alive, and when again if that failed. */
const renewAfter = 1 / 3
const retryAfter = 1 / 10
/** Changes that come within are told as one, so that a thousand hosts that start do not make a thousand listings each. */
const gatherMs = 250
/** A watch that went silent costs no more than this many leases. */
const lookLeases = 6

/**
 * A registry of hosts under leases that are kept alive. Unlike an ownership nothing goes wrong when an entry stays too long or
 * goes too early, and a key that is not written again tells nobody anything: while nothing changes, a host costs three small
 * messages per lease, however many there are.
 */
export class ClusterRegistry implements HostRegistry {
  readonly #cluster: Cluster
  readonly #options: ClusterRegistryOptions
  readonly #stop = new AbortController()
  /** As last read, by key: reading a thousand that did not change costs nothing. */
  readonly #read = new Map<string, { readonly revision: number; readonly host: RegisteredHost | undefined }>()
  #own: string | undefined
  #lease: Lease | undefined
  #keeping: Promise<void> | undefined
  #closing: Promise<void> | undefined

  constructor(cluster: Cluster, options: ClusterRegistryOptions) {
    this.#cluster = cluster
    this.#options = options
  }

  async announce(host: Omit<RegisteredHost, 'nodeId'>, options: AbortOptions = {}): Promise<void> {
    assertOptions('a host', host, { hostname: text, targets: offered })
    assertOptions('the options of announce', options, abort)
    const { hostname, targets } = host
    this.#own = JSON.stringify({ hostname, targets })
    await this.#write(options)
    this.#keeping ??= this.#keep()
  }

  async hosts(options: AbortOptions = {}): Promise<readonly RegisteredHost[]> {
    const entries = await this.#cluster.list(prefix, options)
    const there = new Set(entries.map(({ key }) => key))
    for (const key of this.#read.keys()) if (!there.has(key)) this.#read.delete(key)
    return entries.flatMap((entry) => this.#hostIn(entry) ?? [])
  }

  async *watch({ signal }: { readonly signal: AbortSignal }): AsyncIterable<readonly RegisteredHost[]> {
    const { clock, leaseSeconds } = this.#options
    const either = AbortSignal.any([signal, this.#stop.signal])
    yield* states({
      look: () => this.hosts({ signal: either }),
      subscribe: (changed) => {
        let isDue = false
        this.#cluster.watch(
          prefix,
          () => {
            if (isDue) return
            isDue = true
            const tell = (): void => {
              isDue = false
              changed()
            }
            clock.sleep(gatherMs, { signal: either }).then(tell, () => undefined)
          },
          either,
        )
      },
      isSame: (a, b) => a.length === b.length && a.every((host, index) => host === b[index]),
      waitMs: () => leaseSeconds * 1_000 * lookLeases,
      clock,
      signal: either,
    })
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    this.#stop.abort()
    await this.#keeping
    // Where it cannot be reached it goes by itself.
    if (this.#lease !== undefined) await this.#cluster.revoke(this.#lease.id).catch(() => undefined)
    await this.#cluster.close()
  }

  async #write(options: AbortOptions): Promise<void> {
    const value = this.#own
    if (value === undefined) return
    const lease = (this.#lease ??= await this.#cluster.lease(this.#options.leaseSeconds, options))
    const key = prefix + this.#options.self
    await this.#cluster.transact({ when: {}, put: [{ key, value, leaseId: lease.id }] }, options)
  }

  async #keep(): Promise<void> {
    const { clock, leaseSeconds } = this.#options
    const { signal } = this.#stop
    let waitMs = leaseSeconds * 1_000 * renewAfter
    while (!signal.aborted) {
      try {
        await clock.sleep(waitMs, { signal })
        if (this.#lease !== undefined && !(await this.#cluster.keepAlive(this.#lease.id, { signal })))
          this.#lease = undefined
        if (this.#lease === undefined) await this.#write({ signal })
        waitMs = leaseSeconds * 1_000 * renewAfter
      } catch {
        waitMs = leaseSeconds * 1_000 * retryAfter
      }
    }
  }

  /** The same object for as long as the entry is the same. */
  #hostIn({ key, value, revision }: Entry): RegisteredHost | undefined {
    const known = this.#read.get(key)
    if (known?.revision === revision) return known.host
    const host = hostFrom(key.slice(prefix.length), value)
    this.#read.set(key, { revision, host })
    return host
  }
}

function hostFrom(nodeId: string, entry: string): RegisteredHost | undefined {
  try {
    const shape = asShape(JSON.parse(entry))
    const hostname = asText(shape?.['hostname'])
    if (nodeId === '' || hostname === undefined) return undefined
    return { nodeId: plainText(nodeId), hostname: plainText(hostname), targets: readOffer(shape?.['targets']) }
  } catch {
    return undefined
  }
}
