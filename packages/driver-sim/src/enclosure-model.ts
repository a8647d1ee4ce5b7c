import { enclosureModel, EnclosureInterface, pcieTable, ThunderboltSpeed, Transport } from '@egpu/core'
import type { EnclosureModel } from '@egpu/core'
import type { SimEnclosureDescription } from './descriptions.ts'

type Attachment = Pick<SimEnclosureDescription, 'transport' | 'speed'>

const attachments: Readonly<Record<EnclosureInterface, Attachment>> = {
  [EnclosureInterface.Thunderbolt2]: { transport: Transport.Thunderbolt, speed: ThunderboltSpeed.TB2 },
  [EnclosureInterface.Thunderbolt3]: { transport: Transport.Thunderbolt, speed: ThunderboltSpeed.TB3 },
  [EnclosureInterface.Thunderbolt5]: { transport: Transport.Thunderbolt, speed: ThunderboltSpeed.TB5 },
  [EnclosureInterface.Usb4V1]: { transport: Transport.Usb4, speed: ThunderboltSpeed.TB4 },
  [EnclosureInterface.Usb4V2]: { transport: Transport.Usb4, speed: ThunderboltSpeed.TB5 },
  [EnclosureInterface.OcuLink]: { transport: Transport.OcuLink },
  [EnclosureInterface.M2]: { transport: Transport.Unknown },
  [EnclosureInterface.Mcio]: { transport: Transport.Unknown },
  [EnclosureInterface.Proprietary]: { transport: Transport.Unknown },
}

/** Fills in what the enclosure database knows of `model`. Throws `TypeError` for a model it does not have. */
export function withModel(description: SimEnclosureDescription): SimEnclosureDescription {
  if (description.model === undefined) return description
  const model = enclosureModel(description.model)
  if (model === undefined) throw new TypeError(`the enclosure database has no model ${description.model}`)
  const given = Object.entries(description).filter(([, value]) => value !== undefined)
  return { ...describe(model), ...Object.fromEntries(given) }
}

function describe(model: EnclosureModel): SimEnclosureDescription {
  const [best] = model.interfaces
  return {
    ...(best === undefined ? {} : attachments[best]),
    name: model.name,
    vendorName: model.vendor,
    thunderboltVendorId: model.thunderboltVendorId,
    thunderboltDeviceId: model.thunderboltDeviceId,
    slotLanes: model.slot?.lanes,
    slotGtPerSecond: pcieTable.find((row) => row.generation === model.slot?.generation)?.gtPerSecond,
    powerDeliveryWatts: model.powerDeliveryWatts,
    gpus: model.fixedGpu === undefined ? undefined : [{ name: model.fixedGpu }],
  }
}
