import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { MachineRecording, TreeRecording } from './recording.ts'

/** The recording; throws `EGPU_MALFORMED_DATA` with what is wrong when it is none. Strings in it are still whatever they are. */
export function checkRecording(value: unknown): MachineRecording {
  if (!isRecord(value) || value['kind'] !== 'egpu-linux-recording') {
    throw malformed('this is no recording of a Linux machine (kind is not egpu-linux-recording)')
  }
  if (value['version'] !== 1) {
    throw malformed(`this recording has version ${String(value['version'])}; this release reads version 1: update it`)
  }
  const usb = value['usb']
  const sound = isTree(value['sysfs']) && isTree(value['proc']) && Array.isArray(usb) && usb.every(isUsbDevice)
  if (!sound) throw malformed('this recording is damaged: record it again with egpu dump')
  return value as unknown as MachineRecording
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isTree(value: unknown): value is TreeRecording {
  if (!isRecord(value)) return false
  const { reads, lists, links } = value
  return (
    isRecord(reads) &&
    Object.values(reads).every(
      (read) => typeof read === 'string' || (isRecord(read) && typeof read['error'] === 'string'),
    ) &&
    isRecord(lists) &&
    Object.values(lists).every((names) => Array.isArray(names) && names.every((name) => typeof name === 'string')) &&
    isRecord(links) &&
    Object.values(links).every((target) => typeof target === 'string')
  )
}

function isUsbDevice(value: unknown): boolean {
  if (!isRecord(value)) return false
  const numbers = ['vendorId', 'productId', 'deviceClass'].every((name) => Number.isInteger(value[name]))
  const name = value['productName']
  return numbers && typeof value['place'] === 'string' && (name === undefined || typeof name === 'string')
}

function malformed(message: string): EGpuError {
  return new EGpuError(EGpuErrorCode.MalformedData, message, { driver: 'linux' })
}
