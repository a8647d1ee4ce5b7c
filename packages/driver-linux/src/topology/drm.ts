import { pciAddressesIn } from '../sysfs/parse.ts'
import { textOf } from '../sysfs/sysfs.ts'
import type { Sysfs } from '../sysfs/sysfs.ts'
import type { DrmCard } from './types.ts'

const drm = 'class/drm'

/** Cards with their connectors and render nodes. A GPU bound to vfio-pci, or to nothing, has no card. */
export function readDrmCards(sysfs: Sysfs): readonly DrmCard[] {
  const names = sysfs.list(drm)
  const renderNodes = new Map<string, string>()
  for (const name of names.filter((name) => /^renderD\d+$/.test(name))) {
    const address = pciAddressOf(sysfs, name)
    if (address !== undefined) renderNodes.set(address, name)
  }
  return names
    .filter((name) => /^card\d+$/.test(name))
    .map((name) => {
      const pciAddress = pciAddressOf(sysfs, name)
      const renderNode = pciAddress === undefined ? undefined : renderNodes.get(pciAddress)
      return { name, pciAddress, renderNode, connectors: readConnectors(sysfs, names, name) }
    })
}

/**
 * A card is PCI only if its parent is the PCI function itself: a USB display adapter hangs below a PCI controller too,
 * with USB devices in between.
 */
function pciAddressOf(sysfs: Sysfs, name: string): string | undefined {
  const path = sysfs.link(`${drm}/${name}`)
  const parent = path?.split('/drm/')[0]
  return parent === undefined ? undefined : pciAddressesIn(parent.slice(parent.lastIndexOf('/') + 1))[0]
}

function readConnectors(sysfs: Sysfs, names: readonly string[], card: string): DrmCard['connectors'] {
  return names
    .filter((name) => name.startsWith(`${card}-`))
    .map((name) => {
      const status = textOf(sysfs.read(`${drm}/${name}`, 'status'))
      return {
        name: name.slice(card.length + 1),
        status: status === 'connected' || status === 'disconnected' || status === 'unknown' ? status : undefined,
      }
    })
}
