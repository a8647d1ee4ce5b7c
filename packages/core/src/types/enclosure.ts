import type { LinkReport } from './link.ts'

/**
 * The box, as a driver sees it. *Connected* (there is a router) is not *authorized* (the host lets PCI through) is not
 * *GPU present*.
 */
export interface Enclosure {
  /** Unique id of its router: survives ports and reboots. */
  readonly id: string
  readonly name?: string | undefined
  readonly vendorName?: string | undefined
  /** Thunderbolt vendor and device id. These are not PCI ids. */
  readonly thunderboltVendorId?: number | undefined
  readonly thunderboltDeviceId?: number | undefined
  /** Where it is plugged in, as the host names it: `domain0/port1`. */
  readonly port?: string | undefined
  /** Id of the enclosure or hub it is chained behind. */
  readonly parentId?: string | undefined
  /** Whether the host allows PCI Express through; `undefined` where the notion does not exist. */
  readonly authorized?: boolean | undefined
  /** 1 to 4 as Linux counts: 4 is USB4, of either version. */
  readonly generation?: number | undefined
  readonly firmwareVersion?: string | undefined
  readonly powerDeliveryWatts?: number | undefined
  readonly link?: Pick<LinkReport, 'sticker' | 'trained' | 'downgrade'> | undefined
  /** Name of the driver that saw it. */
  readonly seenBy?: string | undefined
}
