import { GpuDeviceState } from '../registry/states.ts'
import { EGpuPowerState } from '../types/device.ts'
import type { EGpuDevice } from '../types/device.ts'
import type { EnclosureTable } from './enclosure-table.ts'
import type { Facts } from './fusion/merge.ts'
import type { TrackedDevice } from './fusion/tracked-device.ts'

/** The device as an application sees it at this moment. Not frozen: that would cost a third of an event's way. */
export function deviceSnapshot(device: TrackedDevice, enclosures: EnclosureTable): EGpuDevice {
  const { id, epoch } = device
  const seen = device.facts as Facts
  const state = device.state as GpuDeviceState
  const enclosure = seen.enclosureId === undefined ? undefined : enclosures.find(seen.enclosureId)
  return {
    id,
    gpu: seen.gpu,
    verdict: seen.verdict,
    state,
    epoch,
    identity: seen.identity,
    enclosureId: seen.enclosureId,
    enclosureName: enclosure?.name,
    thunderboltPort: seen.thunderboltPort ?? enclosure?.port,
    thunderboltSpeed: seen.thunderboltSpeed,
    powerDeliveryWatts: enclosure?.powerDeliveryWatts,
    powerState: state === GpuDeviceState.Removed ? EGpuPowerState.Disconnected : seen.powerState,
    hasDisplays: seen.hasDisplays,
    displayIds: seen.displayIds,
    link: seen.link,
    driver: seen.kernelDriver,
    appleSilicon: seen.appleSilicon,
    sources: seen.sources,
  }
}
