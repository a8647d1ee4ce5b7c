import { below } from '../registry/picture.ts'
import type { RegistryNode } from '../registry/picture.ts'
import { asText } from '../registry/value.ts'
import { extensionFor } from './extensions.ts'

/** Who drives a GPU. */
export type DriverState =
  | { readonly kind: 'undriven' }
  /** A DriverKit extension holds it. That alone does not make it usable: some take every PCI device. */
  | { readonly kind: 'dext'; readonly bundleId: string | undefined }
  /** A kernel driver that Metal can use. */
  | { readonly kind: 'metal'; readonly name: string }

export function driverStateOf(gpu: RegistryNode): DriverState {
  const accelerator = [...below(gpu)].find((node) => node.roles.has('accelerator'))
  if (accelerator !== undefined) return { kind: 'metal', name: bundleOf(accelerator) ?? accelerator.className }
  const service = gpu.children.find((node) => node.roles.has('user-service'))
  if (service !== undefined) {
    return { kind: 'dext', bundleId: bundleOf(service) ?? asText(service.properties.get('IOUserServerName')) }
  }
  return { kind: 'undriven' }
}

/** As `DeviceObservation.kernelDriver` names it: `metal:com.apple.kext.AMDRadeonX6000`, `dext:org.tinygrad.…`. */
export function driverName(state: DriverState): string | undefined {
  switch (state.kind) {
    case 'undriven':
      return undefined
    case 'dext':
      return state.bundleId === undefined ? 'dext' : `dext:${state.bundleId}`
    case 'metal':
      return `metal:${state.name}`
  }
}

/** Whether work can be run on it through that driver: Metal, or an extension made for GPU computing. */
export function isUsable(state: DriverState): boolean {
  return state.kind === 'metal' || (state.kind === 'dext' && extensionFor(state.bundleId) !== undefined)
}

function bundleOf(node: RegistryNode): string | undefined {
  return asText(node.properties.get('CFBundleIdentifier'))
}
