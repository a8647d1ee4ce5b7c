import type { ProcessFacts } from './proc.ts'

/**
 * Which of the processes belong together: those of one process group (a job of the shell, a service, what a launcher
 * such as torchrun started), and those where one descends from the other. Work that talks to each other must not be
 * stopped in part, or the rest waits for ever.
 */
export function groupsOf(
  pids: readonly number[],
  read: (pid: number) => ProcessFacts | undefined,
): ReadonlyMap<number, readonly number[]> {
  const leader = new Map(pids.map((pid) => [pid, pid]))
  const find = (pid: number): number => {
    const next = leader.get(pid) ?? pid
    return next === pid ? pid : find(next)
  }
  const join = (a: number, b: number): void => void leader.set(find(a), find(b))
  const byProcessGroup = new Map<number, number>()
  for (const pid of pids) {
    const facts = read(pid)
    if (facts === undefined) continue
    const mate = byProcessGroup.get(facts.processGroup)
    if (mate === undefined) byProcessGroup.set(facts.processGroup, pid)
    else join(pid, mate)
    for (const ancestor of ancestorsOf(facts, read)) if (leader.has(ancestor)) join(pid, ancestor)
  }
  return new Map(pids.map((pid) => [pid, pids.filter((other) => find(other) === find(pid))]))
}

function ancestorsOf(facts: ProcessFacts, read: (pid: number) => ProcessFacts | undefined): Set<number> {
  const ancestors = new Set<number>()
  for (let pid = facts.parentPid; pid > 1 && !ancestors.has(pid); pid = read(pid)?.parentPid ?? 0) ancestors.add(pid)
  return ancestors
}
