import { findEnclosureModels } from '@egpu/core'
import type { Finding } from '@egpu/core'
import { enclosureIdOf } from '../enclosure/enclosures.ts'
import type { Survey, SurveyedGpu } from '../survey.ts'
import type { ThunderboltDomain, ThunderboltRouter } from '../topology/types.ts'

/** One thing a doctor looks for. Pure; `docs/findings-linux.md` lists the codes. */
export type FindingRule = (survey: Survey) => readonly Finding[]

export type Read = NonNullable<Finding['evidence']>[number]

/** The boxes on cables. */
export function boxesOf({ topology }: Survey): readonly ThunderboltRouter[] {
  return topology.thunderbolt.routers.filter(({ isHost }) => !isHost)
}

export function domainOf({ topology }: Survey, router: ThunderboltRouter): ThunderboltDomain | undefined {
  return topology.thunderbolt.domains.find(({ index }) => index === router.domain)
}

/** What a person would call the box: `GIGABYTE AORUS RTX5090 AI BOX`. */
export function nameOf({ vendorName, deviceName, name }: ThunderboltRouter): string {
  return [vendorName, deviceName].filter((part) => part !== undefined).join(' ') || `the box at ${name}`
}

/** `GPU 10de:2b85 (GeForce RTX 5090) at 0000:04:00.0`. */
export function gpuName({ gpu, name }: Pick<SurveyedGpu, 'gpu' | 'name'>): string {
  const ids = [gpu.vendorId, gpu.deviceId].map((id) => id?.toString(16).padStart(4, '0') ?? '????').join(':')
  return `GPU ${ids}${name === undefined ? '' : ` (${name})`} at ${gpu.address}`
}

/** Names both the device and its box, for `Finding`. */
export function about({ key, enclosureId }: SurveyedGpu): Pick<Finding, 'deviceId' | 'enclosureId'> {
  return { deviceId: key, enclosureId }
}

export function aboutBox(router: ThunderboltRouter): Pick<Finding, 'enclosureId'> {
  return { enclosureId: enclosureIdOf(router) }
}

/** GPUs that are taken for external and are not dead: what their bars and drivers say counts. */
export function liveExternal({ gpus }: Survey): readonly SurveyedGpu[] {
  return gpus.filter(({ verdict, death }) => verdict.conclusion === 'external' && death === undefined)
}

/** The enclosure database knows it, by its ids or at least a good part of its name, as a box for GPUs. */
export function isKnownGpuBox(router: ThunderboltRouter): boolean {
  const [best] = findEnclosureModels({
    name: router.deviceName,
    vendorName: router.vendorName,
    thunderboltVendorId: router.vendorId,
    thunderboltDeviceId: router.deviceId,
  })
  return best !== undefined && best.confidence >= 0.6
}

export function hasGpu({ gpus }: Survey, router: ThunderboltRouter): boolean {
  return gpus.some(({ join }) => join.candidates.includes(router))
}
