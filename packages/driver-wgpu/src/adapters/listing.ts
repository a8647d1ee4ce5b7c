/** One adapter as Dawn names it, before it was asked for. */
export interface ListedAdapter {
  /** `vulkan`, `d3d12`, `metal`, … */
  readonly backend: string
  /** The driver's own name of the device, not normalised. */
  readonly name: string
}

/** A name no adapter has: asking for it makes Dawn answer with the list of those it does have. */
export const nobody = 'egpu: list the adapters'

/**
 * Reads that answer. It is the only way to enumerate in `webgpu` for Node: `requestAdapter` gives one adapter, and its
 * `info` has no name that tells devices apart (`  * backend: 'vulkan', name: 'AMD Radeon RX 7600 (RADV NAVI33)'`).
 */
export function parseListing(message: string): readonly ListedAdapter[] {
  return [...message.matchAll(/^\s*\*\s*backend:\s*'([^']*)',\s*name:\s*'(.*)'\s*$/gm)].map(([, backend, name]) => ({
    backend: backend as string,
    name: name as string,
  }))
}

/** Backends that drive a GPU directly. The others (OpenGL, D3D11) show the same GPUs once more, through a detour. */
const native: ReadonlySet<string> = new Set(['vulkan', 'd3d12', 'metal'])

/** The listed adapters without second views of the same hardware. */
export function withoutDetours(listed: readonly ListedAdapter[]): readonly ListedAdapter[] {
  const direct = listed.filter(({ backend }) => native.has(backend))
  return direct.length > 0 ? direct : listed
}
