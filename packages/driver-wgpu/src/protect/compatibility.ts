import { EGpuError, EGpuErrorCode } from '@egpu/core'

/** Limits for which less is more. */
const alignments: ReadonlySet<string> = new Set(['minUniformBufferOffsetAlignment', 'minStorageBufferOffsetAlignment'])

/** Why a device with this descriptor cannot be had from the adapter; `undefined` when it can. */
export function incompatibility(
  adapter: GPUAdapter,
  name: string,
  descriptor: GPUDeviceDescriptor,
): EGpuError | undefined {
  const lacking: string[] = []
  for (const feature of descriptor.requiredFeatures ?? []) {
    if (!adapter.features.has(feature)) lacking.push(`feature ${feature}`)
  }
  for (const [limit, needed] of Object.entries(descriptor.requiredLimits ?? {})) {
    const offered = adapter.limits[limit as keyof GPUSupportedLimits] as number | undefined
    if (needed === undefined) continue
    const isMet = offered !== undefined && (alignments.has(limit) ? offered <= needed : offered >= needed)
    if (!isMet) lacking.push(`${limit} ${needed} (it has ${offered ?? 'none'})`)
  }
  if (lacking.length === 0) return undefined
  return new EGpuError(EGpuErrorCode.TargetIncompatible, `${name} lacks ${lacking.join(', ')}`, { driver: 'wgpu' })
}
