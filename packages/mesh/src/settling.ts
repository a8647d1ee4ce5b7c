import type { Machine } from './links/machine.ts'
import type { Members } from './members.ts'
import type { Neighbours } from './neighbours.ts'

export interface Surroundings {
  readonly machine: Machine
  readonly members: Members
  readonly neighbours: Neighbours
}

/**
 * Whether everybody answered who can be expected to. At the end of a cable there is one host. How many there are on another
 * network nobody knows, so that there all of `paired` have to have answered; without any, one may always be missing.
 */
export function isSettled({ machine, members, neighbours }: Surroundings, paired: readonly string[]): boolean {
  const strangers = new Set(neighbours.unpaired.map(({ interfaceName }) => interfaceName))
  return machine.addresses.every(({ interfaceName }) =>
    machine.cableOf(interfaceName) === undefined
      ? paired.length > 0 && paired.every((peerId) => members.hasProbed(interfaceName, peerId))
      : strangers.has(interfaceName) || members.hasProbed(interfaceName),
  )
}
