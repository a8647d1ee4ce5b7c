import type { EGpuDevice, Enclosure, Finding, Verdict } from '@egpu/core'
import type { Terminal } from './terminal.ts'
import { hex4, plain, wrap } from './text.ts'

/** What to call a device: its name, else its ids. */
export function deviceName({ gpu, id }: EGpuDevice): string {
  if (gpu.name !== undefined) return plain(gpu.name)
  const ids = [hex4(gpu.vendorId), hex4(gpu.deviceId)]
  return ids.includes(undefined) ? plain(id) : `GPU ${ids.join(':')}`
}

/** The verdict in a few words: `external over thunderbolt, certain`. */
export function verdictText({ conclusion, confidence, transport }: Verdict): string {
  const certainty = confidence >= 0.8 ? 'high confidence' : confidence >= 0.5 ? 'medium confidence' : 'low confidence'
  if (conclusion === 'unknown') return 'unknown whether external'
  const over =
    conclusion === 'external' && transport !== undefined && transport !== 'unknown' ? ` over ${transport}` : ''
  return `${conclusion}${over}, ${certainty}`
}

const gigabytes = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} GB/s`

/** The link in a line: what is printed on it, what it amounts to and what limits it. */
export function linkText({ link, thunderboltSpeed }: EGpuDevice): string | undefined {
  const parts: string[] = []
  const sticker = link?.sticker ?? thunderboltSpeed
  if (sticker !== undefined) parts.push(sticker)
  const trained = link?.trained?.toDevice
  if (trained !== undefined) parts.push(`${trained.lanes * trained.gbpsPerLane} Gb/s`)
  const card = link?.hops.findLast(({ kind, lanes }) => kind === 'real' && lanes !== undefined)
  if (card?.gtPerSecond !== undefined) parts.push(`PCIe ${card.gtPerSecond} GT/s x${card.lanes}`)
  if (link?.effectiveGBps?.toDevice !== undefined) parts.push(`about ${gigabytes(link.effectiveGBps.toDevice)}`)
  if (link?.bottleneck !== undefined) parts.push(`limited because ${link.bottleneck.reason}`)
  return parts.length === 0 ? undefined : plain(parts.join(', '))
}

/** The box's name, else its id. */
function boxText({ enclosureName, enclosureId }: EGpuDevice): string | undefined {
  const text = enclosureName ?? enclosureId
  return text === undefined ? undefined : plain(text)
}

/** One device as a block of lines. */
export function printDevice(device: EGpuDevice, terminal: Terminal): void {
  const paint = device.verdict.conclusion === 'external' ? terminal.colors.green : terminal.colors.bold
  printTitle(deviceName(device), device.id, paint, terminal)
  const rows: [string, string | undefined][] = [
    ['verdict', verdictText(device.verdict)],
    ['state', device.driver === undefined ? device.state : `${device.state}, driver ${plain(device.driver)}`],
    ['box', boxText(device)],
    ['link', linkText(device)],
    ['at', device.identity.pciAddress],
    [
      'screens',
      device.displayIds === undefined || device.displayIds.length === 0 ? undefined : device.displayIds.join(', '),
    ],
  ]
  for (const [label, value] of rows) if (value !== undefined) printRow(label, value, terminal)
  for (const { signal, value, points } of device.verdict.evidence)
    if (points !== 'neither') printRow('because', `${signal} = ${plain(String(value))} (points to ${points})`, terminal)
}

export function printEnclosure(enclosure: Enclosure, terminal: Terminal): void {
  const name = [enclosure.vendorName, enclosure.name].filter((part) => part !== undefined).join(' ')
  printTitle(plain(name === '' ? enclosure.id : name), enclosure.id, terminal.colors.bold, terminal)
  if (enclosure.port !== undefined) printRow('port', enclosure.port, terminal)
  if (enclosure.authorized !== undefined)
    printRow('allowed', enclosure.authorized ? 'yes' : 'no: not authorized', terminal)
}

export function printFinding({ severity, code, seen, advice }: Finding, terminal: Terminal): void {
  const { colors } = terminal
  const paint = severity === 'error' ? colors.red : severity === 'warning' ? colors.yellow : colors.cyan
  terminal.print(`${paint(severity)} ${colors.dim(code)}`)
  printRow('seen', plain(seen), terminal)
  printRow('do', plain(advice), terminal)
}

/** The name with the id beside it, or below it where both do not fit. */
function printTitle(name: string, id: string, paint: (text: string) => string, terminal: Terminal): void {
  const { print, columns, colors } = terminal
  const both = name.length + 2 + id.length <= columns
  print(both ? `${paint(name)}  ${colors.dim(plain(id))}` : paint(wrap(name, columns, '')))
  if (!both) print(`  ${colors.dim(plain(id))}`)
}

function printRow(label: string, value: string, { print, columns, colors }: Terminal): void {
  const indent = ' '.repeat(11)
  print(`  ${colors.dim(label.padEnd(9))}${wrap(value, columns - indent.length, indent)}`)
}
