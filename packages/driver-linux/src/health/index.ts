import { join } from 'node:path'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, Clock, HealthSample } from '@egpu/core'
import type { HealthCapability } from '@egpu/core/driver'
import { readQuietly } from '../quiet-files.ts'
import { findGpu } from '../survey.ts'
import type { Survey } from '../survey.ts'
import { parseDecimal } from '../sysfs/parse.ts'
import { countErrors } from './aer.ts'
import { readSensors } from './hwmon.ts'
import { best, capacitiesOf, ratioOf } from './link-ratio.ts'
import type { LinkCapacities } from './link-ratio.ts'

export interface HealthContext {
  readonly sysfsRoot: string
  readonly clock: Clock
  survey(options: AbortOptions): Promise<Survey>
  /** Devices known to be dead though they read well, with the reason. */
  readonly dead?: ReadonlyMap<string, string> | undefined
}

/** Health from what the kernel has already: a sleeping GPU is not woken, a dead one is not asked. */
export function linuxHealth(context: HealthContext): HealthCapability {
  const { sysfsRoot, clock } = context
  const peaks = new Map<string, LinkCapacities>()
  return {
    async sample(key, { signal } = {}): Promise<HealthSample> {
      const now = await context.survey({ signal })
      const { gpu, death, link } = findGpu(now, key)
      const died = death?.sign ?? context.dead?.get(key)
      if (died !== undefined) {
        throw new EGpuError(EGpuErrorCode.DeviceLost, `the GPU at ${gpu.address} is still listed but dead: ${died}`, {
          driver: 'linux',
          deviceId: key,
        })
      }
      const { topology } = now
      const device = join(sysfsRoot, gpu.path)
      const errors = countErrors(
        [...gpu.parents, gpu.address].flatMap((address) => {
          const path = topology.pci.get(address)?.path
          return path === undefined ? [] : [join(sysfsRoot, path)]
        }),
      )
      const counted = {
        atMs: clock.now(),
        correctableErrors: errors.correctable,
        nonfatalErrors: errors.nonfatal,
        fatalErrors: errors.fatal,
      }
      if (!isAwake(gpu.details?.runtimeStatus)) return counted
      const capacities = capacitiesOf(link)
      const peak = best(peaks.get(key) ?? new Map(), capacities)
      peaks.set(key, peak)
      const [sensors] = topology.hwmon.get(gpu.address) ?? []
      const bytes = (name: string): number | undefined => parseDecimal(readQuietly(join(device, name))?.trim())
      return {
        ...counted,
        ...(sensors === undefined ? {} : readSensors(join(sysfsRoot, sensors))),
        memoryUsedBytes: bytes('mem_info_vram_used'),
        memoryTotalBytes: bytes('mem_info_vram_total'),
        linkRatio: ratioOf(capacities, peak),
      }
    },
  }
}

/** `unsupported` is a device that is never put to sleep; unknown counts as asleep. */
function isAwake(status: string | undefined): boolean {
  return status === 'active' || status === 'unsupported'
}
