import { dirname, join } from 'node:path'
import { readText } from './proc.ts'

export interface HostMemoryRoots {
  readonly procRoot: string
  /** `/sys/fs/cgroup`. */
  readonly cgroupRoot: string
}

/**
 * How much more memory a process can have: what the machine has left, or less where a control group of the process sets
 * a limit. A parked process keeps the GPU's memory in its own, so its groups count and not ours. `undefined` when
 * nothing says.
 */
export function availableHostBytes({ procRoot, cgroupRoot }: HostMemoryRoots, pid: number): number | undefined {
  const kilobytes = /^MemAvailable:\s+(\d+) kB/m.exec(readText(`${procRoot}/meminfo`) ?? '')?.[1]
  const limits = groupsOf(procRoot, cgroupRoot, pid).map(roomIn)
  const all = [kilobytes === undefined ? undefined : Number(kilobytes) * 1024, ...limits]
  const known = all.filter((room) => room !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

/** The process's control group and every one around it (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst). */
function groupsOf(procRoot: string, cgroupRoot: string, pid: number): string[] {
  const groups: string[] = []
  for (const line of (readText(`${procRoot}/${pid}/cgroup`) ?? '').split('\n')) {
    const [hierarchy, controllers, path] = line.split(':')
    if (path === undefined) continue
    const root =
      hierarchy === '0' ? cgroupRoot : controllers?.split(',').includes('memory') ? `${cgroupRoot}/memory` : ''
    if (root === '') continue
    for (let group = path; ; group = dirname(group)) {
      groups.push(join(root, group))
      if (group === '/' || group === '.') break
    }
  }
  return groups
}

function roomIn(group: string): number | undefined {
  const limit = Number(readText(`${group}/memory.max`) ?? readText(`${group}/memory.limit_in_bytes`) ?? Number.NaN)
  const used = Number(readText(`${group}/memory.current`) ?? readText(`${group}/memory.usage_in_bytes`) ?? Number.NaN)
  // `max` and the huge number that v1 uses for no limit are no limit.
  if (!Number.isFinite(limit) || !Number.isFinite(used) || limit > 2 ** 60) return undefined
  // The group's page cache counts as used but gives way.
  const cache = /^(?:inactive_file|total_inactive_file) (\d+)$/m.exec(readText(`${group}/memory.stat`) ?? '')?.[1]
  return Math.max(0, limit - used + Number(cache ?? 0))
}
