import { EGpuManager } from '@egpu/core'
import type { Figure } from '../figure.ts'
import { tinyDevice, tinyDriver } from './tiny-driver.ts'

const devices = 10_000

/** From nothing to a list of 10,000 devices, fused, named and with a verdict each. */
export async function measure(): Promise<Figure[]> {
  const seen = Array.from({ length: devices }, (_, index) => tinyDevice(index))
  const startedAt = performance.now()
  await using manager = await EGpuManager.create({ drivers: [tinyDriver(seen)] })
  const listed = manager.devices
  const value = performance.now() - startedAt
  const ids = new Set(listed.map(({ id }) => id))
  if (ids.size !== devices) throw new Error(`${devices} devices were there, ${ids.size} ids came out`)
  return [
    {
      figure: 'list-10000-devices',
      value,
      unit: 'ms',
      against: '1000 ms',
      ratio: value / 1_000,
      bar: '<= 1000 ms',
      pass: value <= 1_000,
    },
  ]
}
