import { tunnelledRouter } from '../topology/route.ts'
import type { Wedge } from './state.ts'
import { isSynthetic } from './uevent.ts'
import type { Uevent } from './uevent.ts'

/** What an event means for GPUs and boxes, decided from the event alone: nothing is read, so nothing can be late. */
export type Sign =
  /** A box left its cable. `router` as sysfs names it: `0-1`. */
  | { readonly what: 'router-gone'; readonly router: string }
  /** The PCI Express tunnel to a router was taken down. */
  | { readonly what: 'tunnel-down'; readonly router: string }
  /** It was set up (again). */
  | { readonly what: 'tunnel-up'; readonly router: string }
  /** A kernel driver let go of what is at `devpath`. */
  | { readonly what: 'driver-gone'; readonly devpath: string }
  /** A PCI function left the bus. */
  | { readonly what: 'function-gone'; readonly devpath: string }
  /** The kernel gave a device up. */
  | { readonly what: 'wedged'; readonly devpath: string; readonly wedge: Wedge }
  /**
   * A PCI Express error, and the recovery did not work. That is no wedge: it also fails when a driver takes no part in
   * it, and the device goes on working.
   */
  | { readonly what: 'recovery-failed'; readonly devpath: string }
  /** Something that matters changed; what it is now has to be read. `arrived` is a new router's name or a devpath. */
  | { readonly what: 'look'; readonly arrived?: string | undefined }

/** Subsystems whose events can change what a snapshot says. */
const relevantSubsystems: ReadonlySet<string> = new Set(['thunderbolt', 'pci', 'drm', 'typec', 'firmware-attributes'])

/**
 * Recovery methods of the kernel's DRM wedge event that leave the device unusable until somebody acts
 * (Documentation/gpu/drm-uapi.rst, "Device Wedging"). `none` is not among them: the driver reset the device itself.
 */
const wedgeRecoveries: ReadonlyMap<string, Wedge> = new Map([
  [
    'rebind',
    {
      reason: 'its driver has to be unbound and bound again',
      advice: 'End what uses it, then unbind its driver and bind it again, or re-plug the box.',
    },
  ],
  [
    'bus-reset',
    {
      reason: 'it needs a bus reset and its driver bound again',
      advice: 'End what uses it, then re-plug the box, or unbind its driver, reset its bus and bind the driver again.',
    },
  ],
  [
    'vendor-specific',
    {
      reason: 'it needs a recovery that its vendor describes',
      advice: "Do what the kernel's documentation of its driver says, or re-plug the box.",
    },
  ],
  [
    'unknown',
    { reason: 'there is no known way to recover it', advice: 'Re-plug the box; if that does not help, restart.' },
  ],
])

/** `undefined` for everything that cannot concern a GPU or a box. */
export function signOf(event: Uevent): Sign | undefined {
  // Somebody wrote to a `uevent` file: udev's coldplug, a test. Nothing happened, also when it says `remove`.
  if (isSynthetic(event)) return undefined
  const { subsystem } = event
  if (subsystem === 'thunderbolt') return thunderboltSign(event)
  if (subsystem === 'pci') return pciSign(event)
  if (subsystem === 'drm') return drmSign(event)
  // A box that fell back to USB shows as a USB device; its interfaces tell nothing more.
  if (subsystem === 'usb') return event.properties.get('DEVTYPE') === 'usb_device' ? { what: 'look' } : undefined
  // A disk in it shows that a USB device is no box for GPUs.
  if (subsystem === 'block') return event.properties.get('DEVTYPE') === 'disk' ? { what: 'look' } : undefined
  return subsystem !== undefined && relevantSubsystems.has(subsystem) ? { what: 'look' } : undefined
}

function thunderboltSign(event: Uevent): Sign | undefined {
  const type = event.properties.get('DEVTYPE')
  // Retimers come and go with the power state of a port, with or without a box behind them.
  if (type === 'thunderbolt_retimer') return undefined
  if (type === 'thunderbolt_device' && event.action === 'remove') {
    return { what: 'router-gone', router: lastSegment(event.devpath) }
  }
  if (type === 'thunderbolt_device' && event.action === 'add') {
    return { what: 'look', arrived: lastSegment(event.devpath) }
  }
  const tunnel = event.properties.get('TUNNEL_EVENT')
  if (tunnel !== 'activated' && tunnel !== 'deactivated') return { what: 'look' }
  const details = event.properties.get('TUNNEL_DETAILS') ?? ''
  if (!details.endsWith('(PCI)')) return undefined
  const router = tunnelledRouter(lastSegment(event.devpath), details)
  if (router === undefined) return { what: 'look' }
  return { what: tunnel === 'activated' ? 'tunnel-up' : 'tunnel-down', router }
}

function pciSign(event: Uevent): Sign {
  const { action, devpath, properties } = event
  if (action === 'remove') return { what: 'function-gone', devpath }
  if (action === 'unbind') return { what: 'driver-gone', devpath }
  if (action === 'add') return { what: 'look', arrived: devpath }
  // `pci_uevent_ers` in drivers/pci/pci-driver.c.
  if (properties.get('ERROR_EVENT') === 'FAILED_RECOVERY') {
    return { what: 'recovery-failed', devpath }
  }
  return { what: 'look' }
}

function drmSign(event: Uevent): Sign {
  const { action, devpath, properties } = event
  const wedged = properties.get('WEDGED')
  if (action === 'change' && wedged !== undefined) {
    // More than one method may be listed, the least drastic first.
    const ways = wedged.split(',').map((method) => wedgeRecoveries.get(method.trim()))
    const first = ways.find((way) => way !== undefined)
    if (first !== undefined) {
      return { what: 'wedged', devpath, wedge: { ...first, reason: `its driver gave it up: ${first.reason}` } }
    }
  }
  if (action === 'remove' && properties.get('DEVTYPE') === 'drm_minor') return { what: 'driver-gone', devpath }
  return { what: 'look' }
}

function lastSegment(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
