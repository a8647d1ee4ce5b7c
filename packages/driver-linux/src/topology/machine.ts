import { parseDecimal, parseFlag, parseName } from '../sysfs/parse.ts'
import { textOf } from '../sysfs/sysfs.ts'
import type { Sysfs } from '../sysfs/sysfs.ts'
import type { MachineFacts } from './types.ts'

const dmi = 'class/dmi/id'

/** `proc` is a reader over a proc root, when there is one that belongs to the same machine. */
export function readMachine(sysfs: Sysfs, proc: Sysfs | undefined): MachineFacts {
  return {
    chassisType: parseDecimal(textOf(sysfs.read(dmi, 'chassis_type'))),
    vendor: parseName(textOf(sysfs.read(dmi, 'sys_vendor'))),
    product: parseName(textOf(sysfs.read(dmi, 'product_name'))),
    kernelRelease: proc === undefined ? undefined : parseName(textOf(proc.read('sys/kernel', 'osrelease'))),
    xgMobile: readXgMobile(sysfs),
    // The id is on other Surfaces too, where the driver refuses it (drivers/platform/surface/surface_hotplug.c).
    detachableBase: sysfs.list('bus/platform/drivers/surface_hotplug').some((name) => name.startsWith('MSHW0153')),
    thunderboltBus: sysfs.list('bus/thunderbolt').length > 0,
  }
}

/** The asus-armoury driver and, before it, asus-nb-wmi say what the port for the XG Mobile does. */
function readXgMobile(sysfs: Sysfs): MachineFacts['xgMobile'] {
  const armoury = 'class/firmware-attributes/asus-armoury/attributes'
  const platform = 'devices/platform/asus-nb-wmi'
  const newer = textOf(sysfs.read(armoury, 'egpu_enable/current_value'))
  const connected =
    textOf(sysfs.read(armoury, 'egpu_connected/current_value')) ?? textOf(sysfs.read(platform, 'egpu_connected'))
  const enabled = newer ?? textOf(sysfs.read(platform, 'egpu_enable'))
  if (connected === undefined && enabled === undefined) return undefined
  return {
    connected: parseFlag(connected),
    enabled: parseFlag(enabled),
    switch: newer === undefined ? `${platform}/egpu_enable` : `${armoury}/egpu_enable/current_value`,
  }
}
