/**
 * `sys_vendor` and `product_name` of virtual machines. Source: systemd `src/basic/virt.c`, which tells them by the same
 * DMI fields.
 */
export const hypervisors: readonly { readonly vendor: string; readonly product?: string | undefined }[] = [
  { vendor: 'QEMU' },
  { vendor: 'KVM' },
  { vendor: 'VMware' },
  { vendor: 'innotek GmbH' },
  { vendor: 'Oracle Corporation', product: 'VirtualBox' },
  { vendor: 'Xen' },
  { vendor: 'Bochs' },
  { vendor: 'Parallels' },
  { vendor: 'BHYVE' },
  { vendor: 'Microsoft Corporation', product: 'Virtual Machine' },
  { vendor: 'Amazon EC2' },
  { vendor: 'Google', product: 'Google Compute Engine' },
]

/** Makers of real GPUs; other display devices of a virtual machine are its own. */
export const gpuMakers: ReadonlySet<number | undefined> = new Set([0x1002, 0x10de, 0x8086])
