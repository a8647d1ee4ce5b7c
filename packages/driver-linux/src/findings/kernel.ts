import type { Finding } from '@egpu/core'
import { usb4HostInterfaceClass } from '../data/host-interfaces.ts'
import type { Survey } from '../survey.ts'
import { aboutBox, boxesOf, nameOf } from './rule.ts'
import type { FindingRule } from './rule.ts'

/** `thunderbolt-driver-missing`: a host interface without the bus type its driver registers. */
export const driverMissing: FindingRule = ({ topology }) => {
  const [first] = topology.hostInterfaces
  if (first === undefined || topology.machine.thunderboltBus) return []
  return [
    {
      code: 'thunderbolt-driver-missing',
      severity: 'error',
      seen: `The host has a Thunderbolt/USB4 controller (${first}), but its driver is not loaded.`,
      advice: 'As root: modprobe thunderbolt. If there is no such module, install the full kernel package.',
      evidence: [{ source: 'bus/thunderbolt', value: undefined }],
    },
  ]
}

interface KernelNeed {
  readonly since: readonly [major: number, minor: number]
  readonly what: string
  readonly isNeeded: (survey: Survey) => boolean
}

/** What the kernel has to be at least, by what the host has. */
const needs: readonly KernelNeed[] = [
  {
    since: [5, 6],
    what: 'USB4',
    isNeeded: ({ topology }) =>
      topology.hostInterfaces.some((address) => topology.pci.get(address)?.pciClass === usb4HostInterfaceClass),
  },
  {
    since: [6, 5],
    what: 'USB4 version 2 and Thunderbolt 5',
    isNeeded: ({ topology }) =>
      topology.hostInterfaces.some((address) => topology.pci.get(address)?.deviceId === thunderbolt5Host),
  },
]

/** Barlow Ridge with 80 Gb/s (drivers/thunderbolt/nhi.h); its sister with 40 Gb/s, 5784, is Thunderbolt 4. */
const thunderbolt5Host = 0x5781

/** `kernel-too-old`: the machine has more than its kernel supports, or the kernel does not tell link speeds. */
export const kernelTooOld: FindingRule = (survey) => [...tooOldForHost(survey), ...withoutSpeeds(survey)]

function tooOldForHost(survey: Survey): readonly Finding[] {
  const release = survey.topology.machine.kernelRelease
  return needs
    .filter(({ since, isNeeded }) => isAtLeast(release, since) === false && isNeeded(survey))
    .map(({ since, what }) => ({
      code: 'kernel-too-old',
      severity: 'warning',
      seen: `Linux ${release} does not support ${what}, which this host has.`,
      advice: `Use Linux ${since.join('.')} or later.`,
      evidence: [{ source: 'proc/sys/kernel/osrelease', value: release }],
    }))
}

/** `undefined` where the release is not known. */
function isAtLeast(release: string | undefined, since: KernelNeed['since']): boolean | undefined {
  const version = /^(\d+)\.(\d+)/.exec(release ?? '')
  if (version === null) return undefined
  const major = Number(version[1])
  return major > since[0] || (major === since[0] && Number(version[2]) >= since[1])
}

/** Since Linux 5.5 every box has `rx_speed` (Documentation/ABI/testing/sysfs-bus-thunderbolt). */
function withoutSpeeds(survey: Survey): readonly Finding[] {
  // Later kernels always tell: then the box was just leaving while it was read.
  if (isAtLeast(survey.topology.machine.kernelRelease, [5, 5]) === true) return []
  return boxesOf(survey)
    .filter(({ receive, transmit }) => receive.gbps === undefined && transmit.gbps === undefined)
    .map((router) => ({
      code: 'kernel-too-old',
      severity: 'info',
      ...aboutBox(router),
      seen: `The kernel does not tell the link speed of ${nameOf(router)}.`,
      advice: 'Use Linux 5.5 or later to see it.',
      evidence: [{ source: `${router.path}/rx_speed`, value: undefined }],
    }))
}
