import type { Finding } from '@egpu/core'
import type { Survey } from '../survey.ts'
import { closedSecurityLevel, unauthorized } from './authorization.ts'
import { smallBar, unassignedBar } from './bars.ts'
import { ambiguousBox, detachableGpu, missingPermission, uncertainVerdict } from './certainty.ts'
import { noDmaProtection } from './dma-protection.ts'
import { driverMissing, kernelTooOld } from './kernel.ts'
import { noDriver, noDrmCard, vfioBound } from './kernel-driver.ts'
import { degradedCable, narrowHop, narrowUplink } from './link.ts'
import { lostGpu } from './lost.ts'
import type { FindingRule } from './rule.ts'
import { emptyBox, noTunnel } from './tunnel.ts'
import { usbOnlyConnection } from './usb-only.ts'
import { xgMobileDisabled } from './xg-mobile.ts'

/** Everything that can be told from one look at a machine, the gravest causes first. */
export const rules: readonly FindingRule[] = [
  driverMissing,
  kernelTooOld,
  closedSecurityLevel,
  unauthorized,
  usbOnlyConnection,
  noTunnel,
  emptyBox,
  xgMobileDisabled,
  lostGpu,
  unassignedBar,
  smallBar,
  noDriver,
  noDrmCard,
  vfioBound,
  degradedCable,
  narrowHop,
  narrowUplink,
  uncertainVerdict,
  ambiguousBox,
  missingPermission,
  detachableGpu,
  noDmaProtection,
]

export function findingsOf(survey: Survey): readonly Finding[] {
  return rules.flatMap((rule) => rule(survey))
}
