import { EGpuManager } from '@egpu/core'
import type { EGpuDriver } from '@egpu/core/driver'
import { simDriver } from '@egpu/driver-sim'
import type { Figure } from '../figure.ts'
import { tinyDevice, tinyDriver } from './tiny-driver.ts'

const devices = 10_000

/**
 * From nothing to a list of 10,000 devices, fused, named and with a verdict each: from a driver that has them at hand,
 * which is core alone, and from the simulator, its machine built beforehand.
 */
export async function measure(): Promise<Figure[]> {
  const seen = Array.from({ length: devices }, (_, index) => tinyDevice(index))
  const enclosures = seen.map(({ identity, gpu }) => ({ id: identity.enclosureUid, plugged: true, gpus: [gpu] }))
  return [
    await listing('list-10000-devices', tinyDriver(seen)),
    await listing('list-10000-devices-of-the-simulator', simDriver({ enclosures })),
  ]
}

async function listing(figure: string, driver: EGpuDriver): Promise<Figure> {
  const startedAt = performance.now()
  await using manager = await EGpuManager.create({ drivers: [driver] })
  const listed = manager.devices
  const value = performance.now() - startedAt
  const ids = new Set(listed.map(({ id }) => id))
  if (ids.size !== devices) throw new Error(`${devices} devices were there, ${ids.size} ids came out`)
  return {
    figure,
    value,
    unit: 'ms',
    against: '1000 ms',
    ratio: value / 1_000,
    bar: '<= 1000 ms',
    pass: value <= 1_000,
  }
}
