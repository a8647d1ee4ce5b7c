import { vendorOfPciId } from '@egpu/core'
import type { DeviceObservation } from '@egpu/core/driver'
import type { BoundGpu } from '../bound-gpus.ts'
import type { RawDevice } from '../host/protocol.ts'

/** A GPU that NVML could name, with the address NVML wants to hear. */
export interface SeenGpu {
  readonly observation: DeviceObservation
  readonly busId: string
  /** Of its node `/dev/nvidia<minor>`. */
  readonly minor: number | undefined
}

/** Every GPU that NVML reached. The UUID is burnt into the card, so it is the key. */
export function seenGpu(raw: RawDevice): SeenGpu | undefined {
  const { uuid, busId, pciDeviceId, pciSubsystemId, name, serial, memoryTotal, minor } = raw
  if (uuid === undefined || busId === undefined) return undefined
  const ids = { ...halves(pciDeviceId, 'vendorId', 'deviceId') }
  const subsystem = { ...halves(pciSubsystemId, 'subsystemVendorId', 'subsystemDeviceId') }
  return {
    busId,
    minor,
    observation: {
      key: uuid,
      identity: { uuid, serial, pciAddress: addressOf(busId), ...ids, ...subsystem, adapterName: name },
      gpu: { name, vendor: vendorOfPciId(ids.vendorId), ...ids, ...subsystem, memoryBytes: memoryTotal },
      stage: 'ready',
      kernelDriver: 'nvidia',
    },
  }
}

/** What is known of a sleeping GPU without waking it: who it was when it was awake, and that it sleeps. */
export function asleep(gpu: SeenGpu): SeenGpu {
  return { ...gpu, observation: { ...gpu.observation, powerState: 'suspended' } }
}

/** NVML has eight digits of domain and capitals: `00000000:0A:00.0`. */
export function addressOf(busId: string): string {
  return busId.toLowerCase().replace(/^0{4}(?=[\da-f]{4}:)/, '')
}

/** As NVML writes the address of a function that sysfs knows. */
export function busIdOf({ address }: BoundGpu): string {
  return address.toUpperCase().padStart(16, '0')
}

function halves<L extends string, U extends string>(
  value: number | undefined,
  lower: L,
  upper: U,
): Partial<Record<L | U, number>> {
  // All zeros is how NVML says that a board has no subsystem ids.
  if (value === undefined || value === 0) return {}
  return { [lower]: value & 0xffff, [upper]: value >>> 16 } as Partial<Record<L | U, number>>
}
