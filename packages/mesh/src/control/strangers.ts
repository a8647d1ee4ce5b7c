/** Connections that have not said hello yet: from everybody, and from one address. */
const most = { inAll: 128, perAddress: 16 } as const

/** A connection that has not said hello yet. */
export interface Stranger {
  readonly from: string
  /** Address of this host that it came to, which tells the interfaces apart. */
  readonly to: string
  /** Its TLS handshake went through, which costs more than to hold a line. */
  isSecured?: boolean
}

/**
 * Who makes room when there are too many, given the oldest first: one from the newest one's address, else one of the interface with
 * the most, so that a flood on one cable keeps nobody on another one out. Of them it is the oldest that has not got through its
 * handshake, so that a pairing, which takes longer, is not cut short. `undefined` while there is room.
 */
export function whoMakesRoom<T extends Stranger>(strangers: readonly T[]): T | undefined {
  const fromThere = strangers.filter(({ from }) => from === strangers.at(-1)?.from)
  if (fromThere.length > most.perAddress) return leastMissed(fromThere)
  if (strangers.length <= most.inAll) return undefined
  const counts = new Map<string, number>()
  for (const { to } of strangers) counts.set(to, (counts.get(to) ?? 0) + 1)
  const largest = Math.max(...counts.values())
  return leastMissed(strangers.filter(({ to }) => counts.get(to) === largest))
}

function leastMissed<T extends Stranger>(strangers: readonly T[]): T | undefined {
  return strangers.find(({ isSecured }) => isSecured !== true) ?? strangers[0]
}
