import type { LinkRoute } from '../control/peer-connection.ts'
import type { BulkLink } from './lane.ts'

/** The connections to one peer that large amounts go over: every cable, and the networks only when there is none. */
export function carriers<C extends { readonly link: LinkRoute }>(connections: readonly C[]): readonly C[] {
  const cables = connections.filter(({ link }) => link.kind === 'thunderbolt')
  return cables.length > 0 ? cables : connections
}

/** To pull from the peer at the other end. */
export function bulkLink({ id, address, localAddress }: LinkRoute): BulkLink {
  return { name: id, host: address, localAddress }
}
