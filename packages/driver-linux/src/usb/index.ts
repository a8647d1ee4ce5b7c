import { join } from 'node:path'
import type { Finding } from '@egpu/core'
import { listQuietly, readQuietly } from '../quiet-files.ts'
import type { Topology } from '../topology/types.ts'
import { usbFindings } from './findings.ts'
import type { UsbDeviceFacts } from './findings.ts'
import type { ListUsb } from './list-usb.ts'

/** Listing takes a few milliseconds. */
const patienceMs = 2_000

const usbDevices = 'bus/usb/devices'

/** The devices, and which of them the kernel found a disk behind. */
export function withDisks(devices: readonly UsbDeviceFacts[], sysfsRoot: string): readonly UsbDeviceFacts[] {
  return devices.map((device) => ({ ...device, hasDisk: hasDisk(join(sysfsRoot, usbDevices, device.place)) }))
}

/** How many Thunderbolt or USB4 boxes are connected. */
export function boxesOf({ routers }: Topology['thunderbolt']): number {
  return routers.filter(({ isHost }) => !isHost).length
}

/** Looks for boxes that fell back to USB, and lists the bus again only when something on it changed. */
export class UsbFallbacks {
  readonly #list: ListUsb
  readonly #sysfsRoot: string
  #seen: string | undefined
  #devices: readonly UsbDeviceFacts[] = []

  constructor(sysfsRoot: string, list: ListUsb) {
    this.#sysfsRoot = sysfsRoot
    this.#list = list
  }

  async find({ thunderbolt }: Topology): Promise<readonly Finding[]> {
    const present = this.#present()
    if (present !== this.#seen) {
      this.#devices = present === '' ? [] : await withinPatience(this.#list(), this.#devices)
      this.#seen = present
    }
    return usbFindings(withDisks(this.#devices, this.#sysfsRoot), boxesOf(thunderbolt))
  }

  /** Names say where something is plugged in; the device number, which is never used twice in a row, says what. */
  #present(): string {
    const directory = join(this.#sysfsRoot, usbDevices)
    return listQuietly(directory)
      .map((name) => `${name}=${readQuietly(join(directory, name, 'devnum'))?.trim() ?? ''}`)
      .join()
  }
}

/** Whether a disk hangs below a USB device: `1-2:1.0/host6/target6:0:0/6:0:0:0/block/sda`. Reads names only. */
function hasDisk(device: string): boolean {
  const steps = [/:\d+\.\d+$/, /^host\d+$/, /^target/, /^\d+:\d+:\d+:\d+$/, /^block$/, /./]
  let level: readonly string[] = [device]
  for (const step of steps) {
    level = level.flatMap((directory) =>
      listQuietly(directory)
        .filter((name) => step.test(name))
        .map((name) => join(directory, name)),
    )
  }
  return level.length > 0
}

/** Native code that does not answer must not stop the look that asked: what was known before has to do. */
function withinPatience<T>(work: Promise<T>, otherwise: T): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(otherwise), patienceMs)
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
