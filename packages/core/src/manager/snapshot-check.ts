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
    devices: usable(devices as DriverSnapshot['devices'], checkObservation),
    enclosures: usable(enclosures as DriverSnapshot['enclosures'], checkEnclosure),
    findings: usable(findings as DriverSnapshot['findings'], checkFinding),
  }
  return { snapshot, violation }
}

/** Without these there is nothing to recognise a device by, or to judge it by. */
export function checkObservation(observation: DeviceObservation): Violation | undefined {
  if (!isRecord(observation) || typeof observation.key !== 'string' || observation.key === '') {
    return 'listed a device without a key; it is left out'
  }
  const { key, identity, gpu, stage, verdict } = observation
  const wrong = (what: string): Violation => `listed device ${key} ${what}; it is left out`
  if (!isRecord(identity) || !isRecord(gpu)) return wrong('without its identity or its description')
  for (const name of textFields)
    if (!isOptional(identity[name], 'string')) return wrong(`with a ${name} that is no text`)
  for (const name of idFields) {
    if (!isOptional(identity[name], 'number') || !isOptional(gpu[name], 'number')) {
      return wrong(`with a ${name} that is no number`)
    }
  }
  if (!isOptional(gpu.name, 'string')) return wrong('with a name that is no text')
  if (!stages.has(stage)) return wrong(`in stage ${JSON.stringify(stage)}, which there is not`)
  if (verdict === undefined) return undefined
  const judged = isRecord(verdict) && typeof verdict.confidence === 'number' && Array.isArray(verdict.evidence)
  return judged ? undefined : wrong('with a verdict that has no confidence or no evidence')
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

const textFields = ['uuid', 'serial', 'pciAddress', 'registryEntryId', 'enclosureUid', 'adapterName'] as const
const idFields = ['vendorId', 'deviceId', 'subsystemVendorId', 'subsystemDeviceId'] as const
const stages: ReadonlySet<string> = new Set<DeviceObservation['stage']>(['present', 'ready', 'lost', 'wedged'])

/** TypeScript is sure already; a driver in JavaScript need not be right. */
function isRecord(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function isOptional(value: unknown, kind: 'string' | 'number'): boolean {
  return value === undefined || typeof value === kind
}
