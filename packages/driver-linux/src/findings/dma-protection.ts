import { aboutBox, boxesOf, domainOf, nameOf } from './rule.ts'
import type { FindingRule } from './rule.ts'

/** `no-dma-protection`: an authorized box may read and write all memory. */
export const noDmaProtection: FindingRule = (survey) =>
  boxesOf(survey)
    .filter((router) => router.authorized !== 0 && domainOf(survey, router)?.iommuDmaProtection === false)
    .map((router) => ({
      code: 'no-dma-protection',
      severity: 'info',
      ...aboutBox(router),
      seen: `The host does not protect its memory from devices behind ${nameOf(router)}.`,
      advice:
        'Authorize only boxes you trust. Turn on the IOMMU (VT-d, AMD-Vi) and DMA protection in the firmware setup.',
      evidence: [{ source: `bus/thunderbolt/devices/domain${router.domain}/iommu_dma_protection`, value: '0' }],
    }))
