import { EventQueue } from '@egpu/core/driver'
import type { DeviceObservation, DriverEvent, DriverSnapshot, EGpuDriver } from '@egpu/core/driver'

/** The least a driver can be: what is measured with it is core's own work. */
export function tinyDriver(
  devices: readonly DeviceObservation[],
): EGpuDriver & { readonly push: (event: DriverEvent) => void } {
  const snapshot: DriverSnapshot = { devices, enclosures: [], findings: [] }
  const queues = new Set<EventQueue<DriverEvent>>()
  const close = (): Promise<void> => {
    for (const queue of queues) queue.end()
    return Promise.resolve()
  }
  return {
    specVersion: 1,
    name: 'tiny',
    capabilities: {
      hotplug: true,
      verdict: true,
      health: false,
      safeRemoval: false,
      passthrough: false,
      runtimes: [],
    },
    probe: () => Promise.resolve({ usable: true }),
    list: () => Promise.resolve(snapshot),
    watch: ({ signal }) => {
      const queue: EventQueue<DriverEvent> = new EventQueue({ signal, onEnd: () => queues.delete(queue) })
      queues.add(queue)
      queue.push({ type: 'resync', reason: 'started', snapshot })
      return queue
    },
    push: (event) => {
      for (const queue of queues) queue.push(event)
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Device `index` of many, each in a box of its own. */
export function tinyDevice(index: number, over: Partial<DeviceObservation> = {}): DeviceObservation {
  const ids = { vendorId: 0x10de, deviceId: 0x2684, subsystemVendorId: 0x1458, subsystemDeviceId: 0x40bf }
  const bus = `${(index >> 8).toString(16).padStart(4, '0')}:${(index & 0xff).toString(16).padStart(2, '0')}`
  return {
    key: `box-${index}`,
    identity: { ...ids, pciAddress: `${bus}:00.0`, enclosureUid: `uid-${index}`, enclosureSlot: 0 },
    gpu: { vendor: 'nvidia', ...ids },
    stage: 'ready',
    enclosureId: `uid-${index}`,
    powerState: 'active',
    link: {
      hops: [{ id: 'cable', kind: 'virtual', lanes: 4, gtPerSecond: 2.5 }],
      effectiveGBps: { toDevice: 2.8, fromDevice: 2.8 },
    },
    verdict: {
      conclusion: 'external',
      confidence: 0.95,
      transport: 'thunderbolt',
      evidence: [{ signal: 'pci-removable', value: 'removable', weight: 0.9, points: 'external' }],
    },
    ...over,
  }
}
