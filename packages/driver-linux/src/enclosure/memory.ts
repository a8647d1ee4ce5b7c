import type { JoinedGpu } from './join-all.ts'
import type { JoinHints, RememberedRouter } from './hints.ts'
import { portOf } from './enclosures.ts'

type KeyedGpu = JoinedGpu & { readonly key: string }

/**
 * Remembers under which key and in which box each GPU was, as long as its PCI node exists. On a pulled cable the router goes first and the
 * node late or never: without this, a dying GPU would change its key just then.
 */
export class JoinMemory {
  #keys: ReadonlyMap<string, string> = new Map()
  #routers = new Map<string, RememberedRouter & { readonly ids: string }>()

  /** What is known of the GPUs that are still there with the same ids. */
  recall(): Pick<JoinHints, 'remembered' | 'keys'> {
    return { remembered: this.#routers, keys: this.#keys }
  }

  /** Takes in what was found now and forgets GPUs that are gone, or whose address holds another card. */
  keep(joined: readonly KeyedGpu[]): void {
    this.#keys = new Map(joined.map(({ gpu, key }) => [gpu.address, key]))
    const next = new Map<string, RememberedRouter & { readonly ids: string }>()
    for (const { gpu, join, slot } of joined) {
      const ids = `${gpu.vendorId}:${gpu.deviceId}:${gpu.subsystemVendorId}:${gpu.subsystemDeviceId}`
      const before = this.#routers.get(gpu.address)
      if (join.router?.uniqueId !== undefined) {
        next.set(gpu.address, { uniqueId: join.router.uniqueId, port: portOf(join.router), slot, ids })
      } else if (before?.ids === ids) next.set(gpu.address, before)
    }
    this.#routers = next
  }
}
