import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { NvmlFailure } from '../host/native-host.ts'

/** nvmlReturn_t, as far as somebody can do something about it. */
export const NvmlReturn = {
  NoPermission: 4,
  NotFound: 6,
  DriverNotLoaded: 9,
  GpuIsLost: 15,
  ResetRequired: 16,
  VersionMismatch: 18,
} as const

const remedies: ReadonlyMap<number, string> = new Map([
  [NvmlReturn.NoPermission, 'this user may not open /dev/nvidiactl; add it to the group that owns the file'],
  [NvmlReturn.DriverNotLoaded, "NVIDIA's kernel driver is not loaded: plug the GPU in, or run modprobe nvidia"],
  [
    NvmlReturn.VersionMismatch,
    'the library and the loaded kernel driver are of different versions: reboot, or reload the nvidia modules',
  ],
])

/** What NVML refused, as an error of this SDK; anything else is handed back as it is. */
export function nvmlError(error: unknown, deviceId?: string): unknown {
  if (!(error instanceof NvmlFailure)) return error
  const { result, message } = error
  const options = { cause: error, driver: 'cuda', deviceId }
  if (result === NvmlReturn.GpuIsLost || result === NvmlReturn.ResetRequired) {
    return new EGpuError(
      EGpuErrorCode.DeviceLost,
      `NVIDIA's driver has lost GPU ${deviceId ?? ''}: ${message}`,
      options,
    )
  }
  if (result === NvmlReturn.NotFound) {
    const text = `NVIDIA's driver does not know GPU ${deviceId ?? ''} any more; look at list() again`
    return new EGpuError(EGpuErrorCode.DeviceNotFound, text, options)
  }
  const code = result === NvmlReturn.NoPermission ? EGpuErrorCode.PermissionDenied : EGpuErrorCode.NativeUnavailable
  return new EGpuError(code, `NVML refuses: ${remedies.get(result) ?? message}`, options)
}
