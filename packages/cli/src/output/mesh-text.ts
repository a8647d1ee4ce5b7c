import type { MeshLink, MeshPeer } from '@egpu/mesh'
import type { Terminal } from './terminal.ts'
import { plain } from './text.ts'

export function printPeer({ hostname, id, links, targets }: MeshPeer, { print, colors }: Terminal): void {
  print(`${colors.green('✓')} ${colors.bold(plain(hostname))}  ${colors.dim(id.slice(0, 16))}`)
  for (const link of links) print(`  ${linkText(link)}`)
  for (const { name, memoryBytes } of targets)
    print(`  offers ${plain(name)}${memoryBytes === undefined ? '' : `, ${(memoryBytes / 1e9).toFixed(1)} GB`}`)
}

/** The three numbers that are not the same: printed on it, trained, measured. */
export function linkText({ kind, interfaceName, port, sticker, trained, measured }: MeshLink): string {
  const lanes = trained?.receive
  const parts = [
    port ?? interfaceName ?? 'network',
    kind === 'thunderbolt' ? sticker : 'network, no cable',
    lanes === undefined ? undefined : `trained ${lanes.lanes} × ${lanes.gbpsPerLane} Gb/s`,
    measured.latencyUs === undefined ? undefined : `${Math.round(measured.latencyUs)} µs`,
    measured.receiveGbps === undefined
      ? undefined
      : `measured ${measured.receiveGbps.toFixed(1)} Gb/s in, ${(measured.transmitGbps ?? 0).toFixed(1)} out`,
  ]
  return parts.filter((part) => part !== undefined).join('; ')
}
