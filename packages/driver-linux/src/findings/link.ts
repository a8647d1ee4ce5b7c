import type { Finding } from '@egpu/core'
import { boxesOf, about, aboutBox, gpuName, liveExternal, nameOf } from './rule.ts'
import type { FindingRule } from './rule.ts'
import { enclosureIdOf } from '../enclosure/enclosures.ts'

/** `link-degraded`: a cable that trained below what both of its ends can do, for instance to 20 Gb/s. */
export const degradedCable: FindingRule = (survey) =>
  boxesOf(survey).flatMap((router): readonly Finding[] => {
    const enclosure = survey.enclosures.find(({ id }) => id === enclosureIdOf(router))
    const downgrade = enclosure?.link?.downgrade
    if (downgrade === undefined) return []
    return [
      {
        code: 'link-degraded',
        severity: 'warning',
        ...aboutBox(router),
        seen: `The cable to ${nameOf(router)} trained to ${downgrade.actual} instead of ${downgrade.expected}.`,
        advice: 'Plug the cable in again, turn it around, try another certified 40 Gb/s cable and another port.',
        evidence: [
          { source: `${router.path}/rx_speed`, value: String(router.receive.gbps) },
          { source: `${router.path}/rx_lanes`, value: String(router.receive.lanes) },
          { source: `${router.path}/tx_speed`, value: String(router.transmit.gbps) },
          { source: `${router.path}/tx_lanes`, value: String(router.transmit.lanes) },
        ],
      },
    ]
  })

/** `pcie-link-narrow`: a real PCI Express link with fewer lanes than both ends have. */
export const narrowHop: FindingRule = (survey) =>
  liveExternal(survey).flatMap((surveyed): readonly Finding[] => {
    const downgrade = surveyed.link?.downgrade
    if (downgrade === undefined || downgrade.at === 'cable') return []
    return [
      {
        code: 'pcie-link-narrow',
        severity: 'warning',
        ...about(surveyed),
        seen: `The PCI Express link to ${downgrade.at} runs at ${downgrade.actual}; both ends can do ${downgrade.expected}.`,
        advice: 'Seat the card anew and check the riser or cable between it and the board.',
        evidence: [{ source: `bus/pci/devices/${downgrade.at}/current_link_width`, value: downgrade.actual }],
      },
    ]
  })

/** `narrow-host-uplink`: a discrete Thunderbolt controller that the host gave few lanes is slower than its cable. */
export const narrowUplink: FindingRule = (survey) =>
  liveExternal(survey).flatMap((surveyed): readonly Finding[] => {
    const { tunnel, link } = surveyed
    const cable = link?.hops.findIndex(({ kind }) => kind === 'virtual') ?? -1
    const uplink = tunnel?.discrete === true ? link?.hops[cable - 1] : undefined
    if (uplink?.kind !== 'real' || link?.bottleneck?.at !== uplink.id) return []
    return [
      {
        code: 'narrow-host-uplink',
        severity: 'info',
        ...about(surveyed),
        seen: `The ${gpuName(surveyed)} is limited by the host, whose Thunderbolt controller has ${uplink.lanes} PCI Express lanes.`,
        advice: 'This is how the machine is built; another port of the same machine is the same.',
        evidence: [{ source: `bus/pci/devices/${uplink.id}/current_link_width`, value: String(uplink.lanes) }],
      },
    ]
  })
