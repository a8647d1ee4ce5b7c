import { join } from 'node:path'
import type { Finding } from '@egpu/core'
import { listQuietly } from '../quiet-files.ts'
import type { Topology } from '../topology/types.ts'
import { usbFindings } from './findings.ts'
import type { UsbDeviceFacts } from './findings.ts'
import type { ListUsb } from './list-usb.ts'

/** Looks for boxes that fell back to USB, and lists the bus again only when something on it changed. */
export class UsbFallbacks {
  readonly #list: ListUsb
  readonly #directory: string
  #names: string | undefined
  #devices: readonly UsbDeviceFacts[] = []

  constructor(sysfsRoot: string, list: ListUsb) {
    this.#directory = join(sysfsRoot, 'bus/usb/devices')
    this.#list = list
  }

  async find({ thunderbolt }: Topology): Promise<readonly Finding[]> {
    const names = listQuietly(this.#directory).join()
    if (names !== this.#names) {
      this.#devices = names === '' ? [] : await this.#list()
      this.#names = names
    }
    return usbFindings(this.#devices, thunderbolt.routers.filter(({ isHost }) => !isHost).length)
  }
}
