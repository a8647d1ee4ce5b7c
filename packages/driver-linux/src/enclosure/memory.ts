import type { JoinedGpu } from './join-all.ts'
import type { RememberedRouter } from './hints.ts'
import { portOf } from './enclosures.ts'

/**
 * Remembers in which box each GPU was, as long as its PCI node exists. On a pulled cable the router goes first and the
 * node late or never: without this, a dying GPU would change its key just then.
 */
export class JoinMemory {
  #routers = new Map<string, RememberedRouter & { readonly ids: string }>()

  /** What is known of the GPUs that are still there with the same ids. */
  recall(): ReadonlyMap<string, RememberedRouter> {
    return this.#routers
  }

  /** Takes in what was found now and forgets GPUs that are gone, or whose address holds another card. */
  keep(joined: readonly JoinedGpu[]): void {
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
