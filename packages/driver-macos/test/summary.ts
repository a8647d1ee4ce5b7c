import type { AppleSiliconEGpuInfo, LinkReport } from '@egpu/core'
import type { DriverSnapshot } from '@egpu/core/driver'

/** A snapshot in words that fit a line; what is unknown is absent. */
export interface Summary {
  readonly devices: readonly DeviceSummary[]
  readonly enclosures: readonly EnclosureSummary[]
  readonly findings: readonly string[]
}

interface DeviceSummary {
  readonly key: string
  readonly ids?: string
  readonly name?: string
  readonly address?: string
  readonly verdict: string
  readonly transport?: string
  readonly stage: string
  readonly driver?: string
  readonly enclosure?: string
  readonly port?: string
  readonly sticker?: string
  readonly trained?: string
  readonly hops?: readonly string[]
  readonly bottleneck?: string
  readonly hasDisplays?: boolean
  readonly apple?: Partial<AppleSiliconEGpuInfo>
}

interface EnclosureSummary {
  readonly name: string
  readonly port?: string
  readonly behind?: string
  readonly sticker?: string
  readonly trained?: string
  readonly generation?: number
  readonly authorized?: boolean
}

export function summarize({ devices, enclosures, findings }: DriverSnapshot): Summary {
  const nameOf = (id: string | undefined): string | undefined => enclosures.find((one) => one.id === id)?.name
  const hex = (id: number | undefined): string => id?.toString(16).padStart(4, '0') ?? '????'
  return known({
    devices: devices.map((device) => ({
      key: device.key,
      ids: device.gpu.vendorId === undefined ? undefined : `${hex(device.gpu.vendorId)}:${hex(device.gpu.deviceId)}`,
      name: device.gpu.name,
      address: device.identity.pciAddress,
      verdict: `${device.verdict?.conclusion} ${device.verdict?.confidence}`,
      transport: device.verdict?.transport,
      stage: device.stage,
      driver: device.kernelDriver,
      enclosure: nameOf(device.enclosureId),
      port: device.thunderboltPort,
      sticker: device.thunderboltSpeed,
      trained: trained(device.link?.trained),
      hops: hops(device.link),
      bottleneck: device.link?.trained === undefined ? undefined : device.link.bottleneck?.at,
      hasDisplays: device.hasDisplays,
      apple: device.appleSilicon === undefined ? undefined : { ...device.appleSilicon, enumerates: undefined },
    })),
    enclosures: enclosures.map((enclosure) => ({
      name: enclosure.name,
      port: enclosure.port,
      behind: nameOf(enclosure.parentId),
      sticker: enclosure.link?.sticker,
      trained: trained(enclosure.link?.trained),
      generation: enclosure.generation,
      authorized: enclosure.authorized,
    })),
    findings: findings.map((finding) => finding.code),
  }) as Summary
}

function trained(link: LinkReport['trained']): string | undefined {
  if (link === undefined) return undefined
  return [link.toDevice, link.fromDevice].map((way) => `${way?.lanes}x${way?.gbpsPerLane}`).join('/')
}

function hops(link: LinkReport | undefined): readonly string[] | undefined {
  const all = link?.hops.map(({ kind, lanes, gtPerSecond }) =>
    [kind, lanes === undefined ? undefined : `x${lanes}`, gtPerSecond === undefined ? undefined : `${gtPerSecond} GT/s`]
      .filter((part) => part !== undefined)
      .join(' '),
  )
  return all?.length === 0 ? undefined : all
}

function known(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(known)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, child]) => child !== undefined)
      .map(([key, child]) => [key, known(child)]),
  )
}
