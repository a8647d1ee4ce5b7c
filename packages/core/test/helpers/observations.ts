import type { DeviceObservation } from '../../src/driver/observation.ts'
import type { Verdict } from '../../src/types/verdict.ts'

export const external: Verdict = {
  conclusion: 'external',
  confidence: 0.95,
  transport: 'thunderbolt',
  evidence: [{ signal: 'pci-removable', value: 'removable', weight: 0.9, points: 'external' }],
}

export const internal: Verdict = {
  conclusion: 'internal',
  confidence: 0.9,
  evidence: [{ signal: 'pci-removable', value: 'fixed', weight: 0.9, points: 'internal' }],
}

/** An RTX 4090 in an enclosure, as a driver that knows the bus sees it. */
export function seen(key: string, over: Partial<DeviceObservation> = {}): DeviceObservation {
  return {
    key,
    stage: 'ready',
    verdict: external,
    ...over,
    identity: {
      vendorId: 0x10de,
      deviceId: 0x2684,
      subsystemVendorId: 0x1458,
      subsystemDeviceId: 0x40bf,
      ...over.identity,
    },
    gpu: { vendor: 'nvidia', vendorId: 0x10de, deviceId: 0x2684, ...over.gpu },
  }
}

/** What a graphics API sees: a name and a maker. */
export function adapter(key: string, over: Partial<DeviceObservation> = {}): DeviceObservation {
  return {
    key,
    stage: 'ready',
    ...over,
    identity: { adapterName: 'NVIDIA GeForce RTX 4090', ...over.identity },
    gpu: { vendor: 'nvidia', name: 'NVIDIA GeForce RTX 4090', ...over.gpu },
  }
}
