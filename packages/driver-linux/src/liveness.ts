import type { JoinedGpu } from './enclosure/join-all.ts'
import { bridgesAbove } from './topology/functions.ts'
import type { Topology } from './topology/types.ts'

/** Why a GPU that is still listed is dead. */
export interface DeathSign {
  readonly sign: 'link-unreadable' | 'bridge-unreadable' | 'router-gone' | 'router-unauthorized'
  readonly source: string
  readonly value: string | undefined
}

/**
 * Looks for signs that a listed GPU is dead, in what was read without touching it. On a pulled cable the Thunderbolt
 * router goes first and the PCI nodes late or never, and a driver may stay bound all the while.
 */
export function deathSignOf(topology: Topology, joined: JoinedGpu): DeathSign | undefined {
  const { gpu, tunnel, join } = joined
  if (gpu.parents.length === 0) return undefined
  if (gpu.details?.link?.dead === true) {
    return { sign: 'link-unreadable', source: `${gpu.path}/current_link_speed`, value: undefined }
  }
  const bridge = bridgesAbove(topology, gpu).find(({ details }) => details?.link?.dead === true)
  if (bridge !== undefined) {
    return { sign: 'bridge-unreadable', source: `${bridge.path}/current_link_speed`, value: undefined }
  }
  if (tunnel === undefined) return undefined
  if (join.router?.authorized === 0) {
    return { sign: 'router-unauthorized', source: `${join.router.path}/authorized`, value: '0' }
  }
  const domain = topology.thunderbolt.domains.find(({ hostInterface }) => hostInterface === tunnel.hostInterface)
  if (tunnel.hostInterface === undefined || domain === undefined) return undefined
  const routers = topology.thunderbolt.routers.filter((router) => router.domain === domain.index)
  const gone = routers.length > 0 && routers.every(({ isHost }) => isHost)
  return gone ? { sign: 'router-gone', source: 'bus/thunderbolt/devices', value: domain.name } : undefined
}
