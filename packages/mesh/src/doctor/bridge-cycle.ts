/** A cable both of whose ends are members of a bridge: frames pass from cable to cable. */
export interface BridgedCable {
  readonly id: string
  readonly hosts: readonly [string, string]
}

/**
 * Hosts along a ring of bridged cables, if there is one. Bridges over Thunderbolt run no spanning tree, so one broadcast
 * goes round for ever and takes the network of every host with it (firstbatch dnet issue 69). Two cables between the same two
 * hosts are no ring: macOS does not loop there.
 */
export function bridgeCycle(cables: readonly BridgedCable[]): readonly string[] | undefined {
  const neighbours = new Map<string, Set<string>>()
  for (const {
    hosts: [a, b],
  } of cables) {
    if (a === b) continue
    neighbours.set(a, (neighbours.get(a) ?? new Set()).add(b))
    neighbours.set(b, (neighbours.get(b) ?? new Set()).add(a))
  }
  const seen = new Set<string>()
  for (const start of neighbours.keys()) {
    if (seen.has(start)) continue
    const path: string[] = []
    const found = walk(start, undefined, neighbours, seen, path)
    if (found !== undefined) return found
  }
  return undefined
}

function walk(
  host: string,
  from: string | undefined,
  neighbours: ReadonlyMap<string, ReadonlySet<string>>,
  seen: Set<string>,
  path: string[],
): readonly string[] | undefined {
  seen.add(host)
  path.push(host)
  for (const next of neighbours.get(host) ?? []) {
    if (next === from) continue
    const at = path.indexOf(next)
    if (at >= 0) return path.slice(at)
    if (seen.has(next)) continue
    const found = walk(next, host, neighbours, seen, path)
    if (found !== undefined) return found
  }
  path.pop()
  return undefined
}
