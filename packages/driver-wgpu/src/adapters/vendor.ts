import { GpuVendor } from '@egpu/core'

/** WebGPU's vendor names (Dawn's gpu_info.json) with the PCI id under which each sells GPUs. */
const vendors: ReadonlyMap<string, { readonly vendor: GpuVendor; readonly vendorId: number }> = new Map([
  ['amd', { vendor: GpuVendor.Amd, vendorId: 0x1002 }],
  ['apple', { vendor: GpuVendor.Apple, vendorId: 0x106b }],
  ['intel', { vendor: GpuVendor.Intel, vendorId: 0x8086 }],
  ['nvidia', { vendor: GpuVendor.Nvidia, vendorId: 0x10de }],
])

/** What WebGPU's vendor name amounts to; nothing for names that are not in the table. */
export function vendorOf(name: string | undefined): {
  readonly vendor?: GpuVendor | undefined
  readonly vendorId?: number | undefined
} {
  if (name === undefined) return {}
  return vendors.get(name) ?? { vendor: GpuVendor.Other }
}
