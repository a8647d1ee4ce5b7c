import { Transport } from '@egpu/core'
import type { Finding } from '@egpu/core'
import { boxBridges } from '../enclosure/nesting.ts'
import type { Survey, SurveyedGpu } from '../survey.ts'
import { about, gpuName, nameOf } from './rule.ts'
import type { FindingRule } from './rule.ts'
import type { PciFunction } from '../topology/types.ts'

/** Below this, nothing may be done without asking (`Verdict.confidence`). */
const actFrom = 0.8

/** `verdict-uncertain`: signs of an external card that do not add up to certainty, as with OCuLink. */
export const uncertainVerdict: FindingRule = ({ gpus }) =>
  gpus
    .filter(
      ({ gpu, verdict }) =>
        gpu.deviceId !== undefined && verdict.conclusion !== 'internal' && verdict.confidence < actFrom,
    )
    .map((surveyed) => {
      const { verdict, gpu } = surveyed
      const cable = verdict.transport === Transport.Unknown ? '' : ` (${verdict.transport})`
      const seen =
        verdict.conclusion === 'unknown'
          ? `It cannot be told whether the ${gpuName(surveyed)} is external.`
          : `The ${gpuName(surveyed)} is probably external${cable}, but nothing proves it.`
      return {
        code: 'verdict-uncertain',
        severity: 'info' as const,
        ...about(surveyed),
        seen,
        advice: `Say what it is, "external" or "internal", in ~/.config/egpu/overrides.json: { "gpus": [{ "match": "${matchOf(gpu)}", "verdict": "external" }] }`,
        evidence: verdict.evidence.map(({ signal, value }) => ({ source: signal, value: String(value) })),
      }
    })

/** The narrowest entry that `parseOverrides` takes, so that a twin of another maker keeps its own verdict. */
function matchOf({ vendorId, deviceId, subsystemVendorId, subsystemDeviceId }: PciFunction): string {
  const pair = (one: number | undefined, other: number | undefined): string =>
    [one, other].map((id = 0) => id.toString(16).padStart(4, '0')).join(':')
  if (subsystemVendorId === undefined || subsystemDeviceId === undefined) return pair(vendorId, deviceId)
  return `${pair(vendorId, deviceId)} ${pair(subsystemVendorId, subsystemDeviceId)}`
}

/** `enclosure-ambiguous`: the GPU is in one of several boxes. */
export const ambiguousBox: FindingRule = (survey) =>
  ambiguous(survey).map((surveyed) => ({
    code: 'enclosure-ambiguous',
    severity: 'info',
    ...about(surveyed),
    seen: `The ${gpuName(surveyed)} is in one of these, and nothing says which: ${surveyed.join.candidates.map(nameOf).join('; ')}.`,
    advice: hiddenSerialAbove(survey, surveyed)
      ? 'Until it is known, treat all of them as in use.'
      : 'The kernel tells root from Linux 6.19 on. Until it is known, treat all of them as in use.',
    evidence: surveyed.join.candidates.map(({ path, uniqueId }) => ({ source: path, value: uniqueId })),
  }))

/** `missing-permission`: root would know better. */
export const missingPermission: FindingRule = (survey) =>
  ambiguous(survey).flatMap((surveyed): readonly Finding[] => {
    const hidden = hiddenSerialAbove(survey, surveyed)
    if (hidden === undefined) return []
    return [
      {
        code: 'missing-permission',
        severity: 'info',
        ...about(surveyed),
        seen: `Which box the ${gpuName(surveyed)} is in is written in /sys/${hidden.path}/serial_number, which only root may read.`,
        advice: 'Run once as root to find out.',
        evidence: [{ source: `${hidden.path}/serial_number`, value: undefined }],
      },
    ]
  })

/** The bridge whose serial number says which box it is, when only root may read it. */
function hiddenSerialAbove({ topology }: Survey, { gpu, tunnel }: SurveyedGpu): PciFunction | undefined {
  return boxBridges(topology, gpu, tunnel).find(({ details }) => details?.serialForbidden === true)
}

function ambiguous({ gpus }: Survey): readonly SurveyedGpu[] {
  return gpus.filter(({ join }) => join.router === undefined && join.candidates.length > 1)
}

/** `detachable-gpu`: part of the machine, but in a base that comes off. */
export const detachableGpu: FindingRule = ({ gpus }) =>
  gpus
    .filter(({ verdict }) => verdict.evidence.some(({ signal }) => signal === 'detachable-base'))
    .map((surveyed) => ({
      code: 'detachable-gpu',
      severity: 'info',
      ...about(surveyed),
      seen: `The ${gpuName(surveyed)} sits in the detachable base of this machine.`,
      advice: 'Release it with the detach key before taking the screen off.',
      evidence: [{ source: 'bus/platform/drivers/surface_hotplug', value: 'MSHW0153' }],
    }))
