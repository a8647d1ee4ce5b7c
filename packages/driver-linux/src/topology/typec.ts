import { parseChoice, parseId, parseMilli } from '../sysfs/parse.ts'
import { textOf } from '../sysfs/sysfs.ts'
import type { Sysfs } from '../sysfs/sysfs.ts'
import type { TypecPartner, TypecPort } from './types.ts'

const typec = 'class/typec'

/** USB Type-C connectors and what is plugged into them. Many machines have none: then this is empty. */
export function readTypecPorts(sysfs: Sysfs): readonly TypecPort[] {
  const names = sysfs.list(typec)
  return names
    .filter((name) => /^port\d+$/.test(name))
    .map((name) => ({
      name,
      dataRole: parseChoice(textOf(sysfs.read(`${typec}/${name}`, 'data_role'))),
      powerRole: parseChoice(textOf(sysfs.read(`${typec}/${name}`, 'power_role'))),
      powerOperationMode: textOf(sysfs.read(`${typec}/${name}`, 'power_operation_mode')),
      partner: names.includes(`${name}-partner`) ? readPartner(sysfs, `${typec}/${name}-partner`) : undefined,
    }))
}

function readPartner(sysfs: Sysfs, path: string): TypecPartner {
  const partner = path.slice(path.lastIndexOf('/') + 1)
  const alternateModes = sysfs.list(path).flatMap((name) => {
    if (!name.startsWith(`${partner}.`)) return []
    const svid = parseId(textOf(sysfs.read(`${path}/${name}`, 'svid')))
    return svid === undefined ? [] : { svid, active: parseYes(textOf(sysfs.read(`${path}/${name}`, 'active'))) }
  })
  return { alternateModes, sourceWatts: readSourceWatts(sysfs, `${path}/usb_power_delivery/source-capabilities`) }
}

/** The strongest of the power data objects: fixed supplies give volts and amperes, batteries give watts. */
function readSourceWatts(sysfs: Sysfs, path: string): number | undefined {
  const watts = sysfs.list(path).flatMap((name) => {
    const volts = parseMilli(textOf(sysfs.read(`${path}/${name}`, 'voltage')))
    const amperes = parseMilli(textOf(sysfs.read(`${path}/${name}`, 'maximum_current')))
    const power = parseMilli(textOf(sysfs.read(`${path}/${name}`, 'maximum_power')))
    if (power !== undefined) return power
    return volts === undefined || amperes === undefined ? [] : volts * amperes
  })
  return watts.length === 0 ? undefined : Math.max(...watts)
}

/** drivers/usb/typec/class.c prints `yes` and `no` here. */
function parseYes(text: string | undefined): boolean | undefined {
  if (text === 'yes') return true
  return text === 'no' ? false : undefined
}
