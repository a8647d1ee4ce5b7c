import type { Finding } from '@egpu/core'
import type { Survey } from '../survey.ts'
import { tunnelPortsOf } from '../topology/tunnels.ts'
import type { TunnelPort } from '../topology/tunnels.ts'
import type { ThunderboltRouter } from '../topology/types.ts'
import { closedLevels } from './authorization.ts'
import { aboutBox, boxesOf, domainOf, hasGpu, isKnownGpuBox, nameOf } from './rule.ts'
import type { FindingRule } from './rule.ts'

/**
 * `no-pcie-tunnel`, `tunnel-port-suspended`: an authorized box, and nothing below any port that leads to its cable.
 * Only for boxes known to hold GPUs and for end devices: a dock may well have no PCI Express. Where the security level
 * forbids tunnels, that is the finding.
 */
export const noTunnel: FindingRule = (survey) => {
  const ports = tunnelPortsOf(survey.topology)
  return boxesOf(survey).flatMap((router): readonly Finding[] => {
    const known = isKnownGpuBox(router)
    if (closedLevels.has(domainOf(survey, router)?.security)) return []
    if (router.authorized === 0 || hasGpu(survey, router) || !(known || router.usb4Type === 'device')) return []
    const own = portsTo(survey, router, ports)
    if (own.length === 0 || own.some(({ address }) => hasBelow(survey, address))) return []
    return [own.every((port) => isAsleep(survey, port)) ? suspended(survey, router, own) : missing(router, known, own)]
  })
}

function missing(router: ThunderboltRouter, known: boolean, ports: readonly TunnelPort[]): Finding {
  return {
    code: 'no-pcie-tunnel',
    severity: known ? 'error' : 'warning',
    ...aboutBox(router),
    seen: `${nameOf(router)} is connected and authorized, but no PCI Express tunnel leads to it.`,
    advice:
      'Power-cycle the box and plug it in again, into another port if there is one. If that does not help, update the firmware of the box and of the host, and allow PCIe tunnelling in the firmware setup.',
    evidence: ports.map(({ address }) => ({ source: `bus/pci/devices/${address}`, value: 'nothing below' })),
  }
}

function suspended(survey: Survey, router: ThunderboltRouter, ports: readonly TunnelPort[]): Finding {
  const [first] = ports.map(({ address }) => address)
  return {
    code: 'tunnel-port-suspended',
    severity: 'error',
    ...aboutBox(router),
    seen: `${nameOf(router)} is connected and authorized, but the port that leads to it sleeps and has not seen it.`,
    advice: `Keep the port awake and plug the box in again. As root: echo on > /sys/bus/pci/devices/${first}/power/control`,
    evidence: ports.map(({ address }) => ({
      source: `${survey.topology.pci.get(address)?.path}/power/runtime_status`,
      value: 'suspended',
    })),
  }
}

function isAsleep({ topology }: Survey, { address }: TunnelPort): boolean {
  return topology.pci.get(address)?.details?.runtimeStatus === 'suspended'
}

function hasBelow({ topology }: Survey, address: string): boolean {
  return [...topology.pci.values()].some(({ parents }) => parents.includes(address))
}

/** Ports of the box's own controller; where the kernel does not say whose a port is, it may be that one's. */
function portsTo(survey: Survey, router: ThunderboltRouter, ports: readonly TunnelPort[]): readonly TunnelPort[] {
  const hostInterface = domainOf(survey, router)?.hostInterface
  return ports.filter((port) => port.hostInterface === undefined || port.hostInterface === hostInterface)
}

/** `enclosure-without-gpu`: the tunnel is up, but the slot is empty or the card has no power. */
export const emptyBox: FindingRule = (survey) => {
  const ports = tunnelPortsOf(survey.topology)
  return boxesOf(survey)
    .filter((router) => router.authorized !== 0 && isKnownGpuBox(router) && !hasGpu(survey, router))
    .filter((router) => portsTo(survey, router, ports).some(({ address }) => hasBelow(survey, address)))
    .map((router) => ({
      code: 'enclosure-without-gpu',
      severity: 'warning',
      ...aboutBox(router),
      seen: `${nameOf(router)} is connected and its PCI Express tunnel is up, but no GPU is in it.`,
      advice: 'Check that the card sits firmly and that its power cables are plugged in, then power-cycle the box.',
      evidence: [{ source: router.path, value: router.uniqueId }],
    }))
}
