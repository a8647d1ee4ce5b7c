import type { Finding } from '@egpu/core'
import type { ThunderboltDomain, ThunderboltRouter } from '../topology/types.ts'
import { aboutBox, boxesOf, domainOf, nameOf } from './rule.ts'
import type { FindingRule, Read } from './rule.ts'

/** Security levels that never let PCI Express through, whatever is authorized. */
export const closedLevels: ReadonlyMap<string | undefined, string> = new Map([
  ['nopcie', 'no PCI Express at all'],
  ['dponly', 'DisplayPort only'],
  ['usbonly', 'USB and DisplayPort only'],
])

/** `security-nopcie`, `security-dponly`, `security-usbonly`: the host is set up to let no GPU through. */
export const closedSecurityLevel: FindingRule = (survey) =>
  boxesOf(survey).flatMap((router): readonly Finding[] => {
    const domain = domainOf(survey, router)
    const allowed = closedLevels.get(domain?.security)
    if (domain === undefined || allowed === undefined) return []
    return [
      {
        code: `security-${domain.security}`,
        severity: 'error',
        ...aboutBox(router),
        seen: `${nameOf(router)} is connected, but ${domain.name} allows ${allowed}.`,
        advice: 'Allow PCIe tunnelling (Thunderbolt security level "user" or "none") in the firmware setup.',
        evidence: [securityOf(domain)],
      },
    ]
  })

/** `enclosure-unauthorized`: connected, but nobody let it in; and why a policy cannot do it. */
export const unauthorized: FindingRule = (survey) =>
  boxesOf(survey).flatMap((router): readonly Finding[] => {
    const domain = domainOf(survey, router)
    if (router.authorized !== 0 || closedLevels.has(domain?.security)) return []
    const unprotected = domain?.iommuDmaProtection === false
    const why = unprotected
      ? ' The policy "iommu" of bolt never authorizes it here, because the host has no IOMMU protection.'
      : ''
    return [
      {
        code: 'enclosure-unauthorized',
        severity: 'error',
        ...aboutBox(router),
        seen: `${nameOf(router)} is connected but not authorized, so its PCI devices do not exist.${why}`,
        advice: authorize(router, unprotected),
        evidence: [{ source: `${router.path}/authorized`, value: '0' }, ...domainEvidence(domain)],
      },
    ]
  })

function authorize(router: ThunderboltRouter, unprotected: boolean): string {
  const byHand = `as root: echo 1 > /sys/${router.path}/authorized`
  if (router.uniqueId === undefined) return `Authorize it, ${byHand}`
  const policy = unprotected ? ' --policy auto' : ''
  return `Authorize it for good: boltctl enroll${policy} ${router.uniqueId} - or for now, ${byHand}`
}

function securityOf(domain: ThunderboltDomain): Read {
  return { source: `bus/thunderbolt/devices/${domain.name}/security`, value: domain.security }
}

function domainEvidence(domain: ThunderboltDomain | undefined): readonly Read[] {
  if (domain === undefined) return []
  const protection = domain.iommuDmaProtection
  return [
    securityOf(domain),
    {
      source: `bus/thunderbolt/devices/${domain.name}/iommu_dma_protection`,
      value: protection === undefined ? undefined : protection ? '1' : '0',
    },
  ]
}
