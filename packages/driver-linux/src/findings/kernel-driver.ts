import type { Finding } from '@egpu/core'
import { cardOf, driversWithoutCard, passthroughDrivers } from '../stage.ts'
import { about, gpuName, liveExternal } from './rule.ts'
import type { FindingRule } from './rule.ts'

/** `no-driver`: on the bus and healthy, but no driver took it. */
export const noDriver: FindingRule = (survey) =>
  liveExternal(survey)
    .filter(({ gpu }) => gpu.driver === undefined)
    .map((surveyed) => ({
      code: 'no-driver',
      severity: 'warning',
      ...about(surveyed),
      seen: `No driver is bound to the ${gpuName(surveyed)}.`,
      advice: `Load the driver of its vendor, or bind it, as root: echo ${surveyed.gpu.address} > /sys/bus/pci/drivers_probe`,
      evidence: [{ source: `${surveyed.gpu.path}/driver`, value: undefined }],
    }))

/** `vfio-bound`: reserved for a virtual machine. */
export const vfioBound: FindingRule = (survey) =>
  liveExternal(survey)
    .filter(({ gpu }) => gpu.driver !== undefined && passthroughDrivers.has(gpu.driver))
    .map((surveyed) => ({
      code: 'vfio-bound',
      severity: 'info',
      ...about(surveyed),
      seen: `The ${gpuName(surveyed)} is bound to ${surveyed.gpu.driver}: it is meant for a virtual machine.`,
      advice: 'To use it on this machine, give it back to its own driver.',
      evidence: [{ source: `${surveyed.gpu.path}/driver`, value: surveyed.gpu.driver }],
    }))

/** `no-drm-card`: a driver is bound, but it made no display card, so nothing in /dev/dri can be opened. */
export const noDrmCard: FindingRule = (survey) =>
  liveExternal(survey).flatMap((surveyed): readonly Finding[] => {
    const { driver } = surveyed.gpu
    if (driver === undefined || passthroughDrivers.has(driver) || driversWithoutCard.has(driver)) return []
    if (cardOf(survey.topology, surveyed) !== undefined) return []
    return [
      {
        code: 'no-drm-card',
        severity: 'warning',
        ...about(surveyed),
        seen: `${driver} is bound to the ${gpuName(surveyed)}, but there is no card for it in /dev/dri.`,
        advice: `Wait a few seconds; if it stays so, the driver failed to start: see dmesg for ${surveyed.gpu.address}.`,
        evidence: [{ source: 'class/drm', value: undefined }],
      },
    ]
  })
