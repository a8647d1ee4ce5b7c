import type { Finding } from '@egpu/core'
import { billboardClass, usbEnclosures } from '../data/usb-enclosures.ts'
import type { UsbEnclosureId } from '../data/usb-enclosures.ts'

/** What a USB device says about itself when it is plugged in. */
export interface UsbDeviceFacts {
  readonly vendorId: number
  readonly productId: number
  readonly deviceClass: number
  readonly productName?: string | undefined
  /** Bus and ports: `1-2.4`. */
  readonly place: string
  /** The kernel found a disk behind it. */
  readonly hasDisk?: boolean | undefined
}

/**
 * Boxes that came up as plain USB devices. `boxes` is the number of Thunderbolt or USB4 boxes that are connected: with
 * one there, a hub on the USB bus is most likely part of it.
 */
export function usbFindings(devices: readonly UsbDeviceFacts[], boxes: number): readonly Finding[] {
  return devices.flatMap((device) => billboard(device) ?? fallback(device, boxes) ?? [])
}

function billboard(device: UsbDeviceFacts): Finding | undefined {
  if (device.deviceClass !== billboardClass) return undefined
  return {
    code: 'alternate-mode-failed',
    severity: 'error',
    seen: `${nameOf(device)} shows a USB billboard: it offered an alternate mode, such as Thunderbolt, and the port did not enter it.`,
    advice: 'Use a port that is marked for Thunderbolt or USB4, and a cable that is certified for it.',
    evidence: evidenceOf(device),
  }
}

function fallback(device: UsbDeviceFacts, boxes: number): Finding | undefined {
  const known = usbEnclosures.find(
    ({ vendorId, productId }) => vendorId === device.vendorId && productId === device.productId,
  )
  if (known === undefined || boxes > 0 || (known.kind === 'bridge' && device.hasDisk === true)) return undefined
  return { code: 'enclosure-usb-only', ...meaningOf(known), evidence: evidenceOf(device) }
}

function meaningOf({ name, kind }: UsbEnclosureId): Pick<Finding, 'severity' | 'seen' | 'advice'> {
  const replug =
    'Plug it into a Thunderbolt or USB4 port with a cable that is certified for 40 Gb/s; update its firmware.'
  switch (kind) {
    case 'companion':
      return {
        severity: 'error',
        seen: `${name} is there on USB, but its Thunderbolt router is not.`,
        advice: replug,
      }
    case 'bridge':
      return {
        severity: 'warning',
        seen: `${name} came up as a plain USB device, and not as a USB4 box: a GPU in it cannot be reached.`,
        advice: `If it is a case for disks, nothing is wrong. ${replug}`,
      }
    case 'usb-gpu':
      return {
        severity: 'info',
        seen: `${name} offers its GPU over USB: there is no PCI Express to it, and no driver of the system can use it.`,
        advice: "Use it through tinygrad, or put the maker's firmware back to use it as an ordinary external GPU.",
      }
  }
}

function nameOf({ productName, vendorId, productId }: UsbDeviceFacts): string {
  return productName ?? `USB device ${hex(vendorId)}:${hex(productId)}`
}

function evidenceOf({ place, vendorId, productId, deviceClass }: UsbDeviceFacts): Finding['evidence'] {
  return [{ source: `usb ${place}`, value: `${hex(vendorId)}:${hex(productId)}, class ${hex(deviceClass)}` }]
}

function hex(value: number): string {
  return value.toString(16).padStart(4, '0')
}
