/** Pure parsers of attribute texts. Each answers `undefined` for anything that is not exactly what the kernel prints. */

/** `0x8086`, `8086` with or without prefix; at most 32 bits. */
export function parseHex(text: string | undefined): number | undefined {
  if (text === undefined || !/^(?:0x)?[\da-f]{1,8}$/i.test(text)) return undefined
  return Number.parseInt(text, 16)
}

/** A PCI or Thunderbolt id: 16 bits. */
export function parseId(text: string | undefined): number | undefined {
  const value = parseHex(text)
  return value !== undefined && value <= 0xffff ? value : undefined
}

/** A decimal number without sign that fits 53 bits. */
export function parseDecimal(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d{1,15}$/.test(text)) return undefined
  return Number(text)
}

export function parseFlag(text: string | undefined): boolean | undefined {
  if (text === '1') return true
  return text === '0' ? false : undefined
}

const laneSpeeds: ReadonlySet<number> = new Set([10, 20, 40])

/** `20.0 Gb/s`, per lane; a Thunderbolt lane runs at 10, 20 or 40. */
export function parseLaneSpeed(text: string | undefined): number | undefined {
  const value = Number(/^(\d{1,3})(?:\.\d)? Gb\/s$/.exec(text ?? '')?.[1])
  return laneSpeeds.has(value) ? value : undefined
}

const pcieSpeeds: ReadonlySet<number> = new Set([2.5, 5, 8, 16, 32, 64])

/** `16.0 GT/s PCIe`, `8 GT/s` of older kernels. `Unknown` and the garbage of a dead device are `undefined`. */
export function parsePcieSpeed(text: string | undefined): number | undefined {
  const value = Number(/^(\d{1,3}(?:\.\d)?) GT\/s(?: PCIe)?$/.exec(text ?? '')?.[1])
  return pcieSpeeds.has(value) ? value : undefined
}

const pcieWidths: ReadonlySet<number> = new Set([1, 2, 4, 8, 12, 16, 32])

/** Lanes of a link. 0 (no link is up) and 255 (what a lost device answers) are no widths. */
export function parsePcieWidth(text: string | undefined): number | undefined {
  const value = parseDecimal(text)
  return value !== undefined && pcieWidths.has(value) ? value : undefined
}

/** C0 and C1 controls, line separators, and characters that reorder what follows on a terminal. */
// oxlint-disable-next-line no-control-regex
const controls = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffd]/g

/** A name for people. It comes from a device or another host, so escape sequences and the like are cut out. */
export function parseName(text: string | undefined): string | undefined {
  const name = text?.replace(controls, '').trim().slice(0, 256)
  return name === '' ? undefined : name
}

const uuid = /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/

export function parseUuid(text: string | undefined): string | undefined {
  const value = text?.toLowerCase()
  return value !== undefined && uuid.test(value) ? value : undefined
}

/** `KEY=value` lines of a `uevent` attribute. */
export function parseUevent(text: string | undefined): ReadonlyMap<string, string> {
  const values = new Map<string, string>()
  for (const line of text?.split('\n') ?? []) {
    const split = line.indexOf('=')
    if (split > 0) values.set(line.slice(0, split), line.slice(split + 1))
  }
  return values
}

/** The chosen one of several words, as Type-C prints roles: `[host] device`. A single word is itself. */
export function parseChoice(text: string | undefined): string | undefined {
  return /\[([^\]]+)\]/.exec(text ?? '')?.[1] ?? text
}

/** `0000:04:00.0`; VMD and large machines have domains of more than four digits. */
export const pciAddressPattern: RegExp = /^[\da-f]{4,8}:[\da-f]{2}:[\da-f]{2}\.[0-7]$/

/** The PCI addresses a sysfs path goes through, from the root down. */
export function pciAddressesIn(path: string): readonly string[] {
  return path.split('/').filter((segment) => pciAddressPattern.test(segment))
}

/** One BAR, as the first six lines of `resource` give it. */
export interface Bar {
  readonly index: number
  readonly sizeBytes: number
  /** False when the kernel found no room for it. */
  readonly assigned: boolean
  readonly prefetchable: boolean
}

/** Flags of include/linux/ioport.h. */
const ioresourceMem = 0x200
const ioresourcePrefetch = 0x2000
const ioresourceUnset = 0x20000000

/** Memory BARs of a function: lines `start end flags` in hexadecimal, all zero where there is no BAR. */
export function parseBars(text: string | undefined): readonly Bar[] {
  const bars: Bar[] = []
  const lines = text?.split('\n').slice(0, 6) ?? []
  for (const [index, line] of lines.entries()) {
    const match = /^0x([\da-f]{1,16}) 0x([\da-f]{1,16}) 0x([\da-f]{1,16})$/.exec(line)
    if (match === null) continue
    const start = BigInt(`0x${match[1]}`)
    const end = BigInt(`0x${match[2]}`)
    const flags = Number(BigInt(`0x${match[3]}`) & 0xffffffffn)
    if ((flags & ioresourceMem) === 0 || end < start) continue
    bars.push({
      index,
      sizeBytes: Number(end - start + 1n),
      assigned: (flags & ioresourceUnset) === 0 && start !== 0n,
      prefetchable: (flags & ioresourcePrefetch) !== 0,
    })
  }
  return bars
}

/** `resourceN_resize`: bit n set means that the BAR could be 2^n MiB large. The answer is the largest, in bytes. */
export function parseLargestBar(text: string | undefined): number | undefined {
  if (text === undefined || !/^(?:0x)?[\da-f]{1,16}$/i.test(text)) return undefined
  const mask = BigInt(text.startsWith('0x') ? text : `0x${text}`)
  return mask === 0n ? undefined : 2 ** (mask.toString(2).length - 1 + 20)
}

/** `00-11-22-33-44-55-66-77`, most significant byte first: the 64-bit Device Serial Number as 16 hex digits. */
export function parseSerialNumber(text: string | undefined): string | undefined {
  if (text === undefined || !/^[\da-f]{2}(?:-[\da-f]{2}){7}$/i.test(text)) return undefined
  const digits = text.replaceAll('-', '').toLowerCase()
  return /^(?:0+|f+)$/.test(digits) ? undefined : digits
}

/** `5000mV`, `3000mA`, `100000mW` of USB Power Delivery objects, in volts, amperes or watts. */
export function parseMilli(text: string | undefined): number | undefined {
  const value = /^(\d{1,9})m[VAW]$/.exec(text ?? '')?.[1]
  return value === undefined ? undefined : Number(value) / 1000
}
