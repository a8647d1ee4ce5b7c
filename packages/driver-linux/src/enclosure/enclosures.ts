import { linkReport } from '@egpu/core'
import type { Enclosure } from '@egpu/core'
import { stickerOf, trainedOf } from '../link/cable.ts'
import type { ThunderboltRouter, Topology } from '../topology/types.ts'

/** Every box on a cable: docks as well as those with a GPU. The machine's own routers and other hosts are none. */
export function enclosuresOf(topology: Topology): readonly Enclosure[] {
  const boxes = topology.thunderbolt.routers.filter(({ isHost }) => !isHost)
  return [...boxes.map((router) => enclosureOf(topology, router)), ...xgMobileOf(topology)]
}

/** A machine has one port for it, and the box tells nothing of itself. */
export const xgMobileId = 'xg-mobile'

/** The firmware says whether it is plugged in, and whether it is let through. */
function xgMobileOf({ machine: { xgMobile } }: Topology): readonly Enclosure[] {
  if (xgMobile?.connected !== true) return []
  return [
    { id: xgMobileId, name: 'ROG XG Mobile', vendorName: 'ASUS', port: 'xg-mobile', authorized: xgMobile.enabled },
  ]
}

function enclosureOf(topology: Topology, router: ThunderboltRouter): Enclosure {
  const parent = topology.thunderbolt.routers.find(({ name }) => name === router.parent)
  const { sticker, trained, downgrade } = linkReport({
    sticker: stickerOf(topology, router),
    trained: trainedOf(router),
  })
  return {
    id: enclosureIdOf(router),
    name: router.deviceName,
    vendorName: router.vendorName,
    thunderboltVendorId: router.vendorId,
    thunderboltDeviceId: router.deviceId,
    port: portOf(router),
    parentId: parent === undefined || parent.isHost ? undefined : enclosureIdOf(parent),
    authorized: router.authorized === undefined ? undefined : router.authorized > 0,
    generation: router.generation,
    firmwareVersion: router.firmwareVersion,
    powerDeliveryWatts: powerDeliveryOf(topology, router),
    link: { sticker, trained, downgrade },
    seenBy: 'linux',
  }
}

/** The router's unique id; where it has none, what it is and where it is plugged in. */
export function enclosureIdOf(router: ThunderboltRouter): string {
  if (router.uniqueId !== undefined) return router.uniqueId
  const ids = [router.vendorId, router.deviceId].map((id) => id?.toString(16).padStart(4, '0') ?? '-').join(':')
  return `${ids}@${portOf(router)}`
}

/** `domain0/port1`, and `domain0/port1/port3` for the box chained behind it. */
export function portOf({ domain, hops }: ThunderboltRouter): string {
  return [`domain${domain}`, ...hops.map((port) => `port${port}`)].join('/')
}

/** Only the box that is plugged into the machine itself charges it. */
function powerDeliveryOf({ thunderbolt, typecPorts }: Topology, router: ThunderboltRouter): number | undefined {
  const [port, ...further] = router.hops
  if (further.length > 0) return undefined
  const name = thunderbolt.ports.find((one) => one.router === router.parent && one.port === port)?.typecPort
  return typecPorts.find((one) => one.name === name)?.partner?.sourceWatts
}
