import type { Finding } from '@egpu/core'
import { billboardClass, usbEnclosures } from '../data/usb-enclosures.ts'

/** What a USB device says about itself when it is plugged in. */
export interface UsbDeviceFacts {
  readonly vendorId: number
  readonly productId: number
  readonly deviceClass: number
  readonly productName?: string | undefined
  /** Bus and ports: `1-2.4`. */
  readonly place: string
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
  if (known === undefined || boxes > 0) return undefined
  return {
    code: 'enclosure-usb-only',
    severity: 'error',
    seen:
      known.kind === 'bridge'
        ? `${known.name} came up as a plain USB device instead of a USB4 box, so there is no PCI Express to its GPU.`
        : `${known.name} is there on USB, but its Thunderbolt router is not.`,
    advice: 'Plug it into a Thunderbolt or USB4 port with a cable that is certified for 40 Gb/s; update its firmware.',
    evidence: evidenceOf(device),
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
