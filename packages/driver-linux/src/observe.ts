import { EGpuPowerState, vendorOfPciId } from '@egpu/core'
import type { DeviceObservation, DriverSnapshot } from '@egpu/core/driver'
import { stickerOf } from './link/cable.ts'
import { findingsOf } from './findings/index.ts'
import { surveyOf } from './survey.ts'
import type { Survey, SurveyedGpu, SurveyOptions } from './survey.ts'
import { cardOf, stageOf } from './stage.ts'
import type { Topology } from './topology/types.ts'

/** What a topology means: GPUs with their verdicts, boxes, and what a doctor would say. Pure. */
export function observe(topology: Topology, options: SurveyOptions = {}): DriverSnapshot {
  return snapshotOf(surveyOf(topology, options))
}

export function snapshotOf(survey: Survey): DriverSnapshot {
  return {
    devices: survey.gpus.map((gpu) => observationOf(survey.topology, gpu)),
    enclosures: survey.enclosures,
    findings: findingsOf(survey),
  }
}

export function observationOf(topology: Topology, surveyed: SurveyedGpu): DeviceObservation {
  const { gpu, join, link } = surveyed
  const card = cardOf(topology, surveyed)
  const ids = {
    vendorId: gpu.vendorId,
    deviceId: gpu.deviceId,
    subsystemVendorId: gpu.subsystemVendorId,
    subsystemDeviceId: gpu.subsystemDeviceId,
  }
  const connected = card?.connectors.filter(({ status }) => status === 'connected')
  return {
    key: surveyed.key,
    identity: {
      ...ids,
      serial: gpu.details?.serial,
      pciAddress: gpu.address,
      enclosureUid: surveyed.enclosureUid,
      enclosureSlot: surveyed.slot,
    },
    gpu: {
      ...ids,
      name: surveyed.name,
      vendor: vendorOfPciId(gpu.vendorId),
      pciClass: gpu.pciClass,
      memoryBytes: gpu.details?.vramBytes,
    },
    stage: stageOf(topology, surveyed),
    verdict: surveyed.verdict,
    enclosureId: surveyed.enclosureId,
    thunderboltPort: surveyed.port,
    thunderboltSpeed: join.router === undefined ? undefined : stickerOf(topology, join.router),
    link,
    powerState: powerStateOf(surveyed),
    hasDisplays: connected === undefined ? undefined : connected.length > 0,
    displayIds: card === undefined ? undefined : connected?.map(({ name }) => `${card.name}/${name}`),
    kernelDriver: gpu.driver,
  }
}

function powerStateOf({ gpu, death }: SurveyedGpu): EGpuPowerState | undefined {
  if (death !== undefined) return EGpuPowerState.Disconnected
  const status = gpu.details?.runtimeStatus
  if (status === 'active' || status === 'resuming') return EGpuPowerState.Active
  return status === 'suspended' || status === 'suspending' ? EGpuPowerState.Suspended : undefined
}
