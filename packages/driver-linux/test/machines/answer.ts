import type { DeviceObservation, DriverSnapshot } from '@egpu/core/driver'
import type { Enclosure, TrainedLanes } from '@egpu/core'
import type { Expected, ExpectedEnclosure, ExpectedGpu, ExpectedLink } from './machine.ts'

/** What a driver said, in the words of `Expected`: everything that matters, nothing else. */
export function answerOf(snapshot: DriverSnapshot): Expected {
  return {
    gpus: Object.fromEntries(snapshot.devices.map((device) => [device.identity.pciAddress ?? '?', gpuOf(device)])),
    enclosures: Object.fromEntries(snapshot.enclosures.map((enclosure) => [enclosure.id, enclosureOf(enclosure)])),
    findings: snapshot.findings.map(({ code, severity }) => `${code} ${severity}` as const).sort(),
  }
}

function gpuOf(device: DeviceObservation): ExpectedGpu {
  const { verdict } = device
  return known({
    key: device.key,
    verdict: verdict?.conclusion ?? 'unknown',
    confidence: confidenceOf(verdict?.confidence ?? 0),
    transport: verdict?.transport,
    stage: device.stage === 'wedged' ? 'lost' : device.stage,
    driver: device.kernelDriver,
    enclosure: device.enclosureId,
    port: device.thunderboltPort,
    speed: device.thunderboltSpeed,
    power: device.powerState,
    displays: device.displayIds,
    link: device.link === undefined ? undefined : linkOf(device.link),
  })
}

function confidenceOf(confidence: number): ExpectedGpu['confidence'] {
  if (confidence >= 0.8) return 'high'
  if (confidence >= 0.6) return 'medium'
  return confidence > 0 ? 'low' : 'none'
}

function linkOf(link: NonNullable<DeviceObservation['link']>): ExpectedLink {
  const toDevice = link.effectiveGBps?.toDevice
  return known({
    sticker: link.sticker,
    trained:
      link.trained === undefined ? undefined : `${lanes(link.trained.toDevice)}/${lanes(link.trained.fromDevice)}`,
    hops: link.hops.map(({ id, kind, gtPerSecond, lanes }) =>
      [id, kind, gtPerSecond, lanes === undefined ? undefined : `x${lanes}`]
        .filter((part) => part !== undefined)
        .join(' '),
    ),
    bottleneck: link.bottleneck?.at,
    effective: toDevice === undefined ? undefined : Math.round(toDevice * 100) / 100,
    downgrade: link.downgrade?.at,
  })
}

function lanes(trained: TrainedLanes | undefined): string {
  return trained === undefined ? '?' : `${trained.lanes}x${trained.gbpsPerLane}`
}

function enclosureOf(enclosure: Enclosure): ExpectedEnclosure {
  return known({
    name: enclosure.name,
    port: enclosure.port ?? '?',
    authorized: enclosure.authorized,
    parent: enclosure.parentId,
    sticker: enclosure.link?.sticker,
    powerDeliveryWatts: enclosure.powerDeliveryWatts,
  })
}

/** The same without the properties that are `undefined`. */
function known<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined)) as T
}
