import type { EGpuDevice, Enclosure, LinkReport, PcieHop } from '@egpu/core'
import { deviceName, verdictText } from './device-text.ts'
import { plain, wrap } from './text.ts'

/** A thing of the machine and what hangs on it. */
export interface TreeNode {
  readonly text: string
  /** `limit` marks the narrowest place of a path. */
  readonly mark?: 'limit' | 'gpu' | 'box' | undefined
  readonly children: readonly TreeNode[]
}

/** Host, cables with their boxes, PCI Express hops and GPUs, each below what it is reached through. */
export function machineTree(
  host: string,
  { devices, enclosures }: { readonly devices: readonly EGpuDevice[]; readonly enclosures: readonly Enclosure[] },
): TreeNode {
  const known = new Set(enclosures.map(({ id }) => id))
  const boxes = (parent: string | undefined): TreeNode[] =>
    enclosures
      .filter(({ parentId }) => (parentId !== undefined && known.has(parentId) ? parentId : undefined) === parent)
      .map((box) => ({
        text: boxText(box),
        mark: 'box' as const,
        children: [...devices.filter(({ enclosureId }) => enclosureId === box.id).map(path), ...boxes(box.id)],
      }))
  const loose = devices.filter(({ enclosureId }) => enclosureId === undefined || !known.has(enclosureId))
  return { text: host, children: [...boxes(undefined), ...loose.map(path)] }
}

function boxText({ name, vendorName, id, port, link, authorized }: Enclosure): string {
  const title = [vendorName, name].filter((part) => part !== undefined).join(' ') || id
  const cable = link?.trained?.toDevice
  const parts = [
    port,
    link?.sticker,
    cable === undefined ? undefined : `${cable.lanes} x ${cable.gbpsPerLane} Gb/s`,
    link?.downgrade === undefined ? undefined : `could be ${link.downgrade.expected}`,
    authorized === false ? 'not authorized' : undefined,
  ].filter((part) => part !== undefined)
  return plain(parts.length === 0 ? title : `${title}  (${parts.join(', ')})`)
}

/** The hops down to a GPU, one below the other. */
function path(device: EGpuDevice): TreeNode {
  const hops = device.link?.hops ?? []
  const limit = device.link?.bottleneck
  const leaf: TreeNode = { text: gpuText(device), mark: 'gpu', children: [] }
  return hops.reduceRight<TreeNode>(
    (below, hop) => ({
      text: hopText(hop, limit),
      mark: limit?.at === hop.id ? 'limit' : undefined,
      children: [below],
    }),
    leaf,
  )
}

function hopText(
  { id, name, kind, lanes, gtPerSecond, effectiveGBps }: PcieHop,
  limit: LinkReport['bottleneck'],
): string {
  const speed = gtPerSecond === undefined || lanes === undefined ? 'speed unknown' : `${gtPerSecond} GT/s x${lanes}`
  const rate = effectiveGBps === undefined ? '' : `, ${effectiveGBps.toFixed(1)} GB/s`
  const facts = {
    real: `PCIe ${speed}${rate}`,
    virtual: 'PCIe through the cable, its own numbers mean nothing',
    internal: "the card's own switch",
  }
  const narrowest = limit?.at === id ? '  ← limits the whole path' : ''
  return plain(`${placeText(id, name)}  ${facts[kind]}${narrowest}`)
}

/** A Mac's id is the path of all that is above, which is drawn already; the name is often its last part. */
function placeText(id: string, name: string | undefined): string {
  const place = id.slice(id.lastIndexOf('/') + 1)
  return name === undefined || name === place ? place : `${place} ${name}`
}

function gpuText(device: EGpuDevice): string {
  const { link, state } = device
  const rate = link?.effectiveGBps?.toDevice
  const cable = link?.bottleneck?.at === 'cable' ? ', limited by the cable' : ''
  const speed = rate === undefined ? '' : `, about ${rate.toFixed(1)} GB/s${cable}`
  return plain(`${deviceName(device)}: ${verdictText(device.verdict)}, ${state}${speed}`)
}

/** However deep a node hangs, its text gets this many columns. */
const leastColumns = 16

/** Lines of at most `columns` with the branches drawn; `paint` colours the text of a node. */
export function treeLines(
  root: TreeNode,
  columns: number,
  paint: (text: string, mark: TreeNode['mark']) => string,
): string[] {
  /** A text that needs several lines goes on beside the branch to what hangs below it. */
  const draw = ({ text, mark, children }: TreeNode, first: string, indent: string): string[] => {
    const further = `${indent}${children.length === 0 ? '  ' : '│ '}`
    const lines = wrap(text, Math.max(leastColumns, columns - further.length), '').split('\n')
    return [
      ...lines.map((line, index) => `${index === 0 ? first : further}${paint(line, mark)}`),
      ...children.flatMap((child, index) => {
        const last = index === children.length - 1
        return draw(child, `${indent}${last ? '└─ ' : '├─ '}`, `${indent}${last ? '   ' : '│  '}`)
      }),
    ]
  }
  return draw(root, '', '')
}
