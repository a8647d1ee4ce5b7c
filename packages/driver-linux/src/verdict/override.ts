import { EGpuError, EGpuErrorCode, Transport } from '@egpu/core'
import type { PciFunction } from '../topology/types.ts'

/** What a person knows better than any heuristic, for instance that a card hangs on an OCuLink cable. */
export interface VerdictOverride {
  /** Ids that all have to match; at least the vendor and the device. */
  readonly vendorId: number
  readonly deviceId: number
  readonly subsystemVendorId?: number | undefined
  readonly subsystemDeviceId?: number | undefined
  readonly verdict: 'external' | 'internal'
  /** How it is attached, for `external`. */
  readonly transport?: Transport | undefined
}

export function overrideFor(overrides: readonly VerdictOverride[], gpu: PciFunction): VerdictOverride | undefined {
  return overrides.find(
    (entry) =>
      entry.vendorId === gpu.vendorId &&
      entry.deviceId === gpu.deviceId &&
      (entry.subsystemVendorId ?? gpu.subsystemVendorId) === gpu.subsystemVendorId &&
      (entry.subsystemDeviceId ?? gpu.subsystemDeviceId) === gpu.subsystemDeviceId,
  )
}

/**
 * Reads an override file:
 * `{ "gpus": [{ "match": "10de:2684 1458:40bf", "verdict": "external", "transport": "oculink" }] }`, ids as `lspci -nn`
 * prints them, the subsystem optional. Throws `EGPU_MALFORMED_DATA` that names the entry which is wrong.
 */
export function parseOverrides(text: string): readonly VerdictOverride[] {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw malformed('it is not JSON', cause)
  }
  const gpus = (value as { readonly gpus?: unknown } | null)?.gpus
  if (!Array.isArray(gpus)) throw malformed('it needs an array "gpus"')
  return gpus.map((entry: unknown, index) => parseEntry(entry, `gpus[${index}]`))
}

const match = /^([\da-f]{4}):([\da-f]{4})(?: ([\da-f]{4}):([\da-f]{4}))?$/i
const transports: readonly unknown[] = Object.values(Transport)

function parseEntry(entry: unknown, where: string): VerdictOverride {
  const fields = (entry ?? {}) as Readonly<Record<string, unknown>>
  const ids = typeof fields['match'] === 'string' ? match.exec(fields['match']) : null
  if (ids === null) throw malformed(`${where}.match must read like "10de:2684" or "10de:2684 1458:40bf"`)
  const { verdict, transport } = fields
  if (verdict !== 'external' && verdict !== 'internal') {
    throw malformed(`${where}.verdict must be "external" or "internal"`)
  }
  if (transport !== undefined && !transports.includes(transport)) {
    throw malformed(`${where}.transport must be one of ${transports.join(', ')}`)
  }
  const [vendorId, deviceId, subsystemVendorId, subsystemDeviceId] = ids
    .slice(1)
    .map((id: string | undefined) => (id === undefined ? undefined : Number.parseInt(id, 16)))
  return {
    vendorId: vendorId as number,
    deviceId: deviceId as number,
    subsystemVendorId,
    subsystemDeviceId,
    verdict,
    transport: transport as Transport | undefined,
  }
}

function malformed(what: string, cause?: unknown): EGpuError {
  return new EGpuError(EGpuErrorCode.MalformedData, `the override file cannot be used: ${what}`, {
    driver: 'linux',
    cause,
  })
}
