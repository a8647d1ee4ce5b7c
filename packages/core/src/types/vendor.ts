/** Who made the GPU, as far as its PCI vendor id tells. */
export const GpuVendor = {
  Amd: 'amd',
  Apple: 'apple',
  Intel: 'intel',
  Nvidia: 'nvidia',
  Other: 'other',
} as const
export type GpuVendor = (typeof GpuVendor)[keyof typeof GpuVendor]

/** PCI vendor ids of the PCI-SIG member list. */
const pciVendors: ReadonlyMap<number, GpuVendor> = new Map([
  [0x1002, GpuVendor.Amd],
  [0x1022, GpuVendor.Amd],
  [0x106b, GpuVendor.Apple],
  [0x8086, GpuVendor.Intel],
  [0x10de, GpuVendor.Nvidia],
])

/** The vendor behind a PCI vendor id; `undefined` stays `undefined`. */
export function vendorOfPciId(vendorId: number | undefined): GpuVendor | undefined {
  if (vendorId === undefined) return undefined
  return pciVendors.get(vendorId) ?? GpuVendor.Other
}
