import { join } from 'node:path'
import { readQuietly } from '../quiet-files.ts'

/** The kernel prints the command's name right-aligned in this many characters, and it may hold spaces. */
const nameWidth = 20

/**
 * Process ids of the clients that are master of a card: those that drive its screens, a compositor or X server. Out of
 * `clients` in debugfs (`drm_clients_info` in drivers/gpu/drm/drm_debugfs.c), which only root can read; reading it asks
 * the kernel, not the card. `fdinfo` does not tell it.
 */
export function drmMastersOf(sysfsRoot: string, node: string): ReadonlySet<number> {
  const minor = /^\/dev\/dri\/card(\d+)$/.exec(node)?.[1]
  if (minor === undefined) return new Set()
  return parseDrmMasters(readQuietly(join(sysfsRoot, 'kernel/debug/dri', minor, 'clients')) ?? '')
}

/** `         gnome-shell  1890   1   y    y  1000          0`: name, process, minor, master, authenticated, user, magic. */
function parseDrmMasters(text: string): ReadonlySet<number> {
  return new Set(
    text.split('\n').flatMap((line) => {
      const [, pid, master] = /^\s*(\d+)\s+\d+\s+([yn])\s+[yn]\s/.exec(line.slice(nameWidth)) ?? []
      return pid !== undefined && master === 'y' ? [Number(pid)] : []
    }),
  )
}
