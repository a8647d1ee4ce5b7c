import { xgMobileId } from '../enclosure/enclosures.ts'
import type { FindingRule } from './rule.ts'

/** `xg-mobile-disabled`: plugged in, and the firmware does not let it through. */
export const xgMobileDisabled: FindingRule = ({ topology: { machine } }) => {
  const { xgMobile } = machine
  if (xgMobile?.connected !== true || xgMobile.enabled !== false) return []
  return [
    {
      code: 'xg-mobile-disabled',
      severity: 'warning',
      enclosureId: xgMobileId,
      seen: 'The XG Mobile is plugged in, but the firmware has it switched off.',
      advice: `Close what uses the laptop's own discrete GPU, which goes away, and switch the box on; that can take minutes. As root: echo 1 > /sys/${xgMobile.switch}`,
      evidence: [{ source: xgMobile.switch, value: '0' }],
    },
  ]
}
