import { lstatSync, readFileSync, readdirSync } from 'node:fs'

/** A PCI function that NVIDIA's kernel driver has, from attributes that the kernel keeps: reading them wakes nothing. */
export interface BoundGpu {
  /** `0000:06:00.0`. */
  readonly address: string
  readonly isSuspended: boolean
  /** Another one after each re-plug, also where the address stays. */
  readonly incarnation: string
}

/** `undefined` where sysfs does not know the driver, as on WSL: then nothing can be said. */
export function readBoundGpus(sysfsRoot: string): readonly BoundGpu[] | undefined {
  let names: string[]
  try {
    names = readdirSync(homeIn(sysfsRoot))
  } catch {
    return undefined
  }
  return names
    .filter((name) => /^[\da-f]{4,8}:[\da-f]{2}:[\da-f]{2}\.[0-7]$/.test(name))
    .sort()
    .map((address) => readBoundGpu(sysfsRoot, address))
}

/** One of them, which may be gone: then its incarnation is `''`. */
export function readBoundGpu(sysfsRoot: string, address: string): BoundGpu {
  const device = `${homeIn(sysfsRoot)}/${address}`
  return { address, isSuspended: isSuspended(device), incarnation: incarnationOf(device) }
}

const homeIn = (sysfsRoot: string): string => `${sysfsRoot}/bus/pci/drivers/nvidia`

/** Documentation/ABI/testing/sysfs-devices-power: `suspended`, or on its way there or back. */
function isSuspended(device: string): boolean {
  const status = readText(`${device}/power/runtime_status`)
  return status === 'suspended' || status === 'suspending'
}

/** sysfs makes a new node for each registration of a device, with a number and a time of its own. */
function incarnationOf(path: string): string {
  try {
    const { ino, ctimeNs } = lstatSync(path, { bigint: true })
    return `${ino}-${ctimeNs}`
  } catch {
    return ''
  }
}

function readText(path: string): string | undefined {
  try {
    // With this encoding Node opens, reads and closes in one call; it is done for every sample.
    return readFileSync(path, 'utf8').trim()
  } catch {
    return undefined
  }
}
