/** How a box connects to the host. */
export const EnclosureInterface = {
  Thunderbolt2: 'thunderbolt-2',
  Thunderbolt3: 'thunderbolt-3',
  Thunderbolt5: 'thunderbolt-5',
  Usb4V1: 'usb4-v1',
  Usb4V2: 'usb4-v2',
  OcuLink: 'oculink',
  /** An M.2 slot of the host, through a ribbon or cable. */
  M2: 'm.2',
  Mcio: 'mcio',
  /** A connector of one maker: ASUS XG Mobile, Alienware Graphics Amplifier, Khadas Mind Link. */
  Proprietary: 'proprietary',
} as const
export type EnclosureInterface = (typeof EnclosureInterface)[keyof typeof EnclosureInterface]

/** What is known of one model of enclosure. What no source told is `undefined`. */
export interface EnclosureModel {
  /** Kebab-case, stable. */
  readonly id: string
  readonly vendor: string
  /** As printed on the box, without the vendor. */
  readonly name: string
  /** Other names in use, such as the one its firmware reports. */
  readonly aliases?: readonly string[] | undefined
  /** Best first. */
  readonly interfaces: readonly EnclosureInterface[]
  /** Chip, or family of chips where the source tells no more, that faces the host. */
  readonly controller?: string | undefined
  /** Thunderbolt vendor and device id as its router reports them. These are not PCI ids. */
  readonly thunderboltVendorId?: number | undefined
  readonly thunderboltDeviceId?: number | undefined
  /** The slot for the card, as wired; absent when the GPU is soldered in. */
  readonly slot?: { readonly generation: number; readonly lanes: number } | undefined
  /** Of the built-in or bundled supply. 0 would be a claim: boxes that come without one have `bringsPsu: false`. */
  readonly psuWatts?: number | undefined
  readonly bringsPsu?: boolean | undefined
  /** What the maker lets the card draw. */
  readonly gpuWatts?: number | undefined
  /** What it can deliver to the host over the cable. */
  readonly powerDeliveryWatts?: number | undefined
  /** The GPU that comes with it and is not meant to be changed. */
  readonly fixedGpu?: string | undefined
  /** Where all of this was read. */
  readonly sources: readonly string[]
}
