import { parseHex } from '../sysfs/parse.ts'
import { isGpu } from '../topology/functions.ts'
import { tunnelledRouter } from '../topology/route.ts'
import { isSynthetic } from '../watch/uevent.ts'
import type { Uevent } from '../watch/uevent.ts'
import type { JoinHints } from './hints.ts'

/** A GPU shows within seconds of its tunnel: 0.3 to 3 s were seen after an authorization. */
const windowMs = 10_000

/**
 * What only somebody who watched knows: which box came just before a GPU did. It is told only when there was but one, so
 * that two that were plugged in together are not taken for each other.
 */
export class Arrivals {
  readonly #routers = new Map<string, number>()
  readonly #tunnels = new Map<string, number>()
  readonly #appearedAfter = new Map<string, string>()
  readonly #tunnelEvents = new Map<string, string>()

  hints(): Pick<JoinHints, 'appearedAfter' | 'tunnelEvents'> {
    return { appearedAfter: this.#appearedAfter, tunnelEvents: this.#tunnelEvents }
  }

  /** Takes in an event of the kernel. */
  note(event: Uevent, atMs: number): void {
    if (isSynthetic(event)) return
    const { action, devpath, subsystem, properties } = event
    if (subsystem === 'pci') this.#notePci(action, properties, atMs)
    if (subsystem !== 'thunderbolt') return
    const name = devpath.slice(devpath.lastIndexOf('/') + 1)
    const type = properties.get('DEVTYPE')
    if (type === 'thunderbolt_device') {
      // The host's own router is `0-0`. A box that waits for permission has no GPU before it has that.
      const counts = action === 'add' || (action === 'change' && /^[12]$/.test(properties.get('AUTHORIZED') ?? ''))
      if (counts && !name.endsWith('-0')) this.#routers.set(name, atMs)
    }
    if (properties.get('TUNNEL_EVENT') !== 'activated') return
    const router = tunnelledRouter(name, properties.get('TUNNEL_DETAILS'))
    if (router !== undefined) this.#tunnels.set(router, atMs)
  }

  /** Events are missing: what was heard proves nothing about what comes. */
  forget(): void {
    this.#routers.clear()
    this.#tunnels.clear()
  }

  #notePci(action: string, properties: Uevent['properties'], atMs: number): void {
    const address = properties.get('PCI_SLOT_NAME')
    if (address === undefined || (action !== 'add' && action !== 'remove')) return
    this.#appearedAfter.delete(address)
    this.#tunnelEvents.delete(address)
    if (action === 'remove' || !isGpu({ pciClass: parseHex(properties.get('PCI_CLASS')) })) return
    const router = onlyRecent(this.#routers, atMs)
    const tunnel = onlyRecent(this.#tunnels, atMs)
    if (router !== undefined) this.#appearedAfter.set(address, router)
    if (tunnel !== undefined) this.#tunnelEvents.set(address, tunnel)
  }
}

/** The one that came within the window; forgets those that are older. */
function onlyRecent(seen: Map<string, number>, atMs: number): string | undefined {
  for (const [name, whenMs] of seen) if (atMs - whenMs > windowMs) seen.delete(name)
  return seen.size === 1 ? [...seen.keys()][0] : undefined
}
