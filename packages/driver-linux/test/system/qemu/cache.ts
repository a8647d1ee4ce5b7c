import { fileURLToPath } from 'node:url'

/** Kernels and initramfs images; everything in it can be deleted at any time. */
export const cache: string = fileURLToPath(new URL('../../../node_modules/.cache/egpu-qemu/', import.meta.url))
