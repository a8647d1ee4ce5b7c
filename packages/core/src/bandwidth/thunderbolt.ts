/** Thunderbolt generations. `thunderboltTable` has their numbers. */
export const ThunderboltSpeed = {
  TB1: 'thunderbolt-1',
  TB2: 'thunderbolt-2',
  TB3: 'thunderbolt-3',
  TB4: 'thunderbolt-4',
  TB5: 'thunderbolt-5',
} as const
export type ThunderboltSpeed = (typeof ThunderboltSpeed)[keyof typeof ThunderboltSpeed]

/** USB4 versions. `usb4Table` has their numbers. */
export const Usb4Version = {
  V1: 'usb4-v1',
  V2: 'usb4-v2',
} as const
export type Usb4Version = (typeof Usb4Version)[keyof typeof Usb4Version]

/** Numbers of one kind of cable; `sources` names where each comes from. */
export interface CableNumbers {
  /** The symmetric link, each direction, in Gb/s. */
  readonly linkGbps: number
  /** The two directions in asymmetric mode, in Gb/s. It serves displays and does not raise `pcieGbps`. */
  readonly asymmetricGbps?: { readonly wide: number; readonly narrow: number } | undefined
  /** The most PCI Express the cable or its controllers carry, each direction, in Gb/s. */
  readonly pcieGbps: number
  /** What one has to expect of a copy, in GB/s. */
  readonly typicalGBps: number
  /** Slowest and fastest copy to expect of an undisturbed cable, in GB/s; its source says whether it was measured. */
  readonly rangeGBps?: { readonly low: number; readonly high: number } | undefined
  /** The PCI Express link its controllers have, which is not what gets through. */
  readonly pcieEquivalent: string
  readonly sources: {
    readonly linkGbps: string
    readonly asymmetricGbps?: string
    readonly pcieGbps: string
    readonly typicalGBps: string
    readonly rangeGBps?: string
    readonly pcieEquivalent: string
  }
}

const controllers = 'Intel Thunderbolt controller tables (ark.intel.com)'
const usb4Spec = 'USB4 Specification (usb.org)'
const tomsHardware = "Tom's Hardware 2025, RTX 5070 Ti: 5.6 GB/s to the GPU, 5.8 GB/s back"
const alpineTitan =
  'GPU-PCIe-Test reference table and reports for Alpine Ridge and Titan Ridge: 19–22 Gb/s, 2.75 GB/s at best'
const usb4Measured =
  'nvbandwidth, RTX 5070 Ti behind JHL9480 (CachyOS/linux-cachyos issue 1021): 2.35–2.8 GB/s contended, 3.86–3.91 idle'

const fortyGbps: CableNumbers = {
  linkGbps: 40,
  pcieGbps: 32,
  typicalGBps: 2.8,
  rangeGBps: { low: 2.35, high: 3.91 },
  pcieEquivalent: 'PCIe 3.0 x4',
  sources: {
    linkGbps: `${usb4Spec} 1.0: 2 lanes of 20 Gb/s`,
    pcieGbps: 'Thunderbolt 4 requirement: 32 Gb/s of PCI Express; USB4 alone leaves it to the host',
    typicalGBps: usb4Measured,
    rangeGBps: usb4Measured,
    pcieEquivalent: 'Thunderbolt 4 requirement: PCIe 3.0 x4',
  },
}

const eightyGbps: CableNumbers = {
  linkGbps: 80,
  asymmetricGbps: { wide: 120, narrow: 40 },
  pcieGbps: 64,
  typicalGBps: 5.7,
  rangeGBps: { low: 5.6, high: 5.8 },
  pcieEquivalent: 'PCIe 4.0 x4',
  sources: {
    linkGbps: `${usb4Spec} 2.0: 2 lanes of 40 Gb/s`,
    asymmetricGbps: `${usb4Spec} 2.0: 3 lanes one way, 1 the other`,
    pcieGbps: 'Thunderbolt 5 requirement: 64 Gb/s of PCI Express; 45–46 Gb/s get through',
    typicalGBps: tomsHardware,
    rangeGBps: tomsHardware,
    pcieEquivalent: 'Thunderbolt 5 requirement: PCIe 4.0 x4',
  },
}

/** Thunderbolt 1 to 5. */
export const thunderboltTable: Readonly<Record<ThunderboltSpeed, CableNumbers>> = {
  [ThunderboltSpeed.TB1]: {
    linkGbps: 10,
    pcieGbps: 10,
    typicalGBps: 0.9,
    rangeGBps: { low: 0.8, high: 1 },
    pcieEquivalent: 'PCIe 2.0 x4',
    sources: {
      linkGbps: `${controllers}: 10 Gb/s in each of 2 separate channels`,
      pcieGbps: `${controllers}: PCIe 2.0 x4 is 16 Gb/s, the channel caps it at 10`,
      typicalGBps: 'middle of rangeGBps',
      rangeGBps: 'estimate from the channel, packet headers taken off; no public copy measurement found',
      pcieEquivalent: controllers,
    },
  },
  [ThunderboltSpeed.TB2]: {
    linkGbps: 20,
    pcieGbps: 16,
    typicalGBps: 1.45,
    rangeGBps: { low: 1.3, high: 1.6 },
    pcieEquivalent: 'PCIe 2.0 x4',
    sources: {
      linkGbps: `${controllers}: both 10 Gb/s channels together`,
      pcieGbps: `${controllers}: PCIe 2.0 x4 after 8b/10b coding`,
      typicalGBps: 'middle of rangeGBps',
      rangeGBps: 'estimate from PCIe 2.0 x4, packet headers taken off; no public copy measurement found',
      pcieEquivalent: controllers,
    },
  },
  [ThunderboltSpeed.TB3]: {
    linkGbps: 40,
    pcieGbps: 22,
    typicalGBps: 2.6,
    rangeGBps: { low: 2.4, high: 2.75 },
    pcieEquivalent: 'PCIe 3.0 x4',
    sources: {
      linkGbps: `${controllers}: 2 lanes of 20 Gb/s`,
      pcieGbps: `${alpineTitan}; no specified figure: the chips have PCIe 3.0 x4, certification asks for 16 Gb/s`,
      typicalGBps: alpineTitan,
      rangeGBps: alpineTitan,
      pcieEquivalent: `${controllers}; some laptops wire only 2 lanes to the host's chip`,
    },
  },
  [ThunderboltSpeed.TB4]: fortyGbps,
  [ThunderboltSpeed.TB5]: eightyGbps,
}

/** USB4, on machines and boxes that carry no Thunderbolt label. */
export const usb4Table: Readonly<Record<Usb4Version, CableNumbers>> = {
  [Usb4Version.V1]: fortyGbps,
  [Usb4Version.V2]: eightyGbps,
}

/** OCuLink (SFF-8611) with four lanes, by PCI Express generation: PCI Express on a cable, nothing tunnelled. */
export const oculinkTable: Readonly<Record<3 | 4, CableNumbers>> = {
  3: {
    linkGbps: 32,
    pcieGbps: 32,
    typicalGBps: 3.3,
    pcieEquivalent: 'PCIe 3.0 x4',
    sources: {
      linkGbps: 'PCI-SIG OCuLink 1.0: 4 lanes of 8 GT/s',
      pcieGbps: 'PCI-SIG OCuLink 1.0',
      typicalGBps: 'estimate: PCIe 3.0 x4 with 128-byte packets; no public measurement found',
      pcieEquivalent: 'PCI-SIG OCuLink 1.0',
    },
  },
  4: {
    linkGbps: 64,
    pcieGbps: 64,
    typicalGBps: 6.65,
    rangeGBps: { low: 6.6, high: 6.7 },
    pcieEquivalent: 'PCIe 4.0 x4',
    sources: {
      linkGbps: '4 lanes of 16 GT/s',
      pcieGbps: '4 lanes of 16 GT/s',
      typicalGBps: "Tom's Hardware 2025, RTX 5070 Ti",
      rangeGBps: "Tom's Hardware 2025, RTX 5070 Ti: 6.6 GB/s to the GPU, 6.7 GB/s back",
      pcieEquivalent: '4 lanes of 16 GT/s',
    },
  },
}
