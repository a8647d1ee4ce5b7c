import { readText } from './proc.ts'
import { openFiles } from './sharing.ts'
import type { SharingRoots } from './sharing.ts'

/**
 * Minors of the GPUs whose nodes a process has open or mapped: those that a driver would wait for before it lets the GPU
 * go. CUDA opens every GPU that it may see, also those it does not compute on.
 */
export function heldMinors({ procRoot, devRoot }: SharingRoots, pid: number): ReadonlySet<number> {
  const maps = readText(`${procRoot}/${pid}/maps`) ?? ''
  const mapped = maps.split('\n').map((line) => line.slice(line.indexOf('/')))
  const minors = [...openFiles(procRoot, pid), ...mapped].map((path) => {
    const name = path.startsWith(`${devRoot}/nvidia`) ? path.slice(devRoot.length + '/nvidia'.length) : ''
    return /^\d+$/.test(name) ? Number(name) : undefined
  })
  return new Set(minors.filter((minor) => minor !== undefined))
}
