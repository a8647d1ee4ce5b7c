import type { DeviceObservation, DriverSnapshot } from '../driver/observation.ts'

/** What is wrong with what a driver sent, as the end of a sentence that begins with its name. */
export type Violation = string

/** What of a look can be used, and what is wrong with the rest. */
export interface CheckedSnapshot {
  readonly snapshot: DriverSnapshot
  readonly violation: Violation | undefined
}

/** `undefined` for something that is no look at all; a part that makes no sense is left out and the others are kept. */
export function checkSnapshot(given: DriverSnapshot): CheckedSnapshot | undefined {
  const { devices, enclosures, findings }: Partial<DriverSnapshot> = isRecord(given) ? given : {}
  if (!Array.isArray(devices) || !Array.isArray(enclosures) || !Array.isArray(findings)) return undefined
  let violation: Violation | undefined
  const usable = <T>(items: readonly T[], check: (item: T) => Violation | undefined): readonly T[] => {
    const kept = items.filter((item) => {
      const wrong = check(item)
      violation = wrong ?? violation
      return wrong === undefined
    })
    return kept.length === items.length ? items : kept
  }
  const snapshot = {
    devices: usable(devices as DriverSnapshot['devices'], (device) => checkObservation(device)),
    enclosures: usable(enclosures as DriverSnapshot['enclosures'], checkEnclosure),
    findings: usable(findings as DriverSnapshot['findings'], checkFinding),
  }
  return { snapshot, violation }
}

/**
 * Without these there is nothing to recognise a device by, or to judge it by. Parts that are the same objects as in an
 * observation that was `accepted` are not looked at again: this runs for every event.
 */
export function checkObservation(observation: DeviceObservation, accepted?: DeviceObservation): Violation | undefined {
  if (!isRecord(observation) || typeof observation.key !== 'string' || observation.key === '') {
    return 'listed a device without a key; it is left out'
  }
  const fault = stageFault(observation) ?? identityFault(observation, accepted) ?? verdictFault(observation, accepted)
  return fault === undefined ? undefined : `listed device ${observation.key} ${fault}; it is left out`
}

function stageFault({ stage }: DeviceObservation): string | undefined {
  if (stage === 'ready' || stage === 'present' || stage === 'lost' || stage === 'wedged') return undefined
  return `in stage ${JSON.stringify(stage)}, which there is not`
}

function identityFault({ identity, gpu }: DeviceObservation, accepted?: DeviceObservation): string | undefined {
  if (accepted !== undefined && identity === accepted.identity && gpu === accepted.gpu) return undefined
  if (!isRecord(identity) || !isRecord(gpu)) return 'without its identity or its description'
  const texts =
    isText(identity.uuid) &&
    isText(identity.serial) &&
    isText(identity.pciAddress) &&
    isText(identity.registryEntryId) &&
    isText(identity.enclosureUid) &&
    isText(identity.adapterName) &&
    isText(gpu.name)
  if (!texts) return 'with something else than text for a name, an address or a serial number'
  return haveNumericIds(identity) && haveNumericIds(gpu) ? undefined : 'with a PCI id that is no number'
}

function verdictFault({ verdict }: DeviceObservation, accepted?: DeviceObservation): string | undefined {
  if (verdict === undefined || verdict === accepted?.verdict) return undefined
  const judged = isRecord(verdict) && typeof verdict.confidence === 'number' && Array.isArray(verdict.evidence)
  return judged ? undefined : 'with a verdict that has no confidence or no evidence'
}

export function checkEnclosure(enclosure: DriverSnapshot['enclosures'][number]): Violation | undefined {
  if (isRecord(enclosure) && typeof enclosure.id === 'string' && enclosure.id !== '') return undefined
  return 'listed an enclosure without an id; it is left out'
}

export function checkFinding(finding: DriverSnapshot['findings'][number]): Violation | undefined {
  return isRecord(finding) && typeof finding.code === 'string'
    ? undefined
    : 'gave a finding without a code; it is left out'
}

/** TypeScript is sure already; a driver in JavaScript need not be right. */
function isRecord(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function isText(value: string | undefined): boolean {
  return value === undefined || typeof value === 'string'
}

function isNumber(value: number | undefined): boolean {
  return value === undefined || typeof value === 'number'
}

type PciIds = Pick<DeviceObservation['identity'], 'vendorId' | 'deviceId' | 'subsystemVendorId' | 'subsystemDeviceId'>

function haveNumericIds({ vendorId, deviceId, subsystemVendorId, subsystemDeviceId }: PciIds): boolean {
  return isNumber(vendorId) && isNumber(deviceId) && isNumber(subsystemVendorId) && isNumber(subsystemDeviceId)
}
