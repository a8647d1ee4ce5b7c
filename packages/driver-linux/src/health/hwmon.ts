import { join } from 'node:path'
import type { HealthSample } from '@egpu/core'
import { listQuietly, readQuietly } from '../quiet-files.ts'
import { parseDecimal } from '../sysfs/parse.ts'

type Sensors = Pick<HealthSample, 'temperatureCelsius' | 'temperatureLimitCelsius' | 'powerWatts'>

/** The kernel counts in thousandths of a degree and millionths of a watt (Documentation/hwmon/sysfs-interface.rst). */
const perDegree = 1000
const perWatt = 1_000_000

/**
 * Temperature, its limit and power from a hwmon directory. The first sensor is the one all drivers have: the edge of the
 * chip with amdgpu, the package with i915 and xe. Asking can wake the device, so only ask one that is awake.
 */
export function readSensors(directory: string): Sensors {
  const number = (name: string): number | undefined => parseDecimal(readQuietly(join(directory, name))?.trim())
  const first = listQuietly(directory)
    .flatMap((name) => /^temp(\d+)_input$/.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b)
    .at(0)
  const temperature = first === undefined ? undefined : number(`temp${first}_input`)
  const limit = first === undefined ? undefined : (number(`temp${first}_crit`) ?? number(`temp${first}_max`))
  const power = number('power1_average') ?? number('power1_input')
  return {
    temperatureCelsius: temperature === undefined ? undefined : temperature / perDegree,
    temperatureLimitCelsius: limit === undefined ? undefined : limit / perDegree,
    powerWatts: power === undefined ? undefined : power / perWatt,
  }
}
