import { parseName } from '../sysfs/parse.ts'
import type { UsbDeviceFacts } from './findings.ts'

/** What is on the USB bus now. Resolves to nothing where that cannot be told. */
export type ListUsb = () => Promise<readonly UsbDeviceFacts[]>

/**
 * Lists with the `usb` package, whose native part is loaded on the first call. It reads what the kernel got when each
 * device was plugged in and opens none of them.
 */
export const listUsb: ListUsb = async () => {
  try {
    const { usb } = await import('usb')
    const devices = await usb.getDevices()
    return devices.map((device) => ({
      vendorId: device.vendorId,
      productId: device.productId,
      deviceClass: device.deviceClass,
      productName: parseName(device.productName ?? undefined),
      place: `${device.bus}-${device.ports.join('.')}`,
    }))
  } catch {
    return []
  }
}
