import { EGpuError, EGpuErrorCode, type EGpuDevice } from '@egpu/core'
import { didYouMean } from './closest.ts'
import { deviceName } from './device-text.ts'

/**
 * The device a person means: by id, by PCI address with or without its domain, or the only external one when nothing is
 * said. Throws `EGPU_DEVICE_NOT_FOUND` with what could have been said.
 */
export function chosenDevice(
  external: readonly EGpuDevice[],
  all: readonly EGpuDevice[],
  wanted: string | undefined,
): EGpuDevice {
  const [only] = external
  if (wanted === undefined && only !== undefined && external.length === 1) return only
  const found = all.find(({ id, identity }) => {
    const { pciAddress } = identity
    return id === wanted || (pciAddress !== undefined && (pciAddress === wanted || pciAddress === `0000:${wanted}`))
  })
  if (found !== undefined) return found
  if (wanted === undefined && external.length === 0) {
    throw new EGpuError(EGpuErrorCode.DeviceNotFound, 'no external GPU is connected; egpu list shows what is')
  }
  const offer = all.map((device) => `\n  ${device.id}  ${deviceName(device)}, ${device.verdict.conclusion}`).join('')
  const text =
    wanted === undefined
      ? `say which GPU: ${external.length} are external`
      : `no GPU is called ${wanted}${didYouMean(wanted, namesOf(all))}`
  throw new EGpuError(EGpuErrorCode.DeviceNotFound, `${text}; there are:${offer || ' none'}`)
}

function namesOf(devices: readonly EGpuDevice[]): readonly string[] {
  return devices.flatMap(({ id, identity }) => [id, identity.pciAddress ?? []].flat())
}
