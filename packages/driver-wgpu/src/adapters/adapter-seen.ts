import type { ListedAdapter } from './listing.ts'

/** One adapter as it was at one look, copied out of WebGPU's objects. */
export interface AdapterSeen {
  /** Names it within this driver: `<backend>:<device name>`, with `#2` for the second of two identical ones. */
  readonly key: string
  readonly name: string
  /** As WebGPU says it, lower case: `nvidia`, `amd`. */
  readonly vendor: string | undefined
  readonly backend: string | undefined
  /** Runs on the CPU: SwiftShader, lavapipe, WARP. */
  readonly software: boolean
  readonly limits: Readonly<Record<string, number>>
  readonly features: readonly string[]
  /** A fresh adapter for this very device; `undefined` when it is not there any more, or cannot be told from its twin. */
  readonly request: (() => Promise<FreshAdapter | undefined>) | undefined
}

/** An adapter together with what must outlive its device: Dawn crashes when its instance is collected first. */
export interface FreshAdapter {
  readonly adapter: GPUAdapter
  readonly keepAlive: GPU
}

/** Names of renderers that run on the CPU, for implementations without `isFallbackAdapter`. */
const software = /swiftshader|llvmpipe|lavapipe|softpipe|basic render driver|\bwarp\b/i

/** Copies what an adapter tells of itself. `listed` is there when the name came from Dawn's listing. */
export function describeAdapter(
  adapter: GPUAdapter,
  listed: ListedAdapter | undefined,
  request: AdapterSeen['request'],
): AdapterSeen {
  const { info } = adapter
  const name = listed?.name ?? firstNonEmpty(info.description, info.device, info.architecture, info.vendor) ?? 'adapter'
  return {
    key: `${listed?.backend ?? 'webgpu'}:${name}`,
    name,
    vendor: firstNonEmpty(info.vendor),
    backend: listed?.backend,
    software: info.isFallbackAdapter || software.test(`${name} ${info.architecture} ${info.description}`),
    limits: copyLimits(adapter.limits),
    features: [...adapter.features].map(String).sort(),
    request,
  }
}

/** Limits are accessors on the prototype, so a plain spread finds none. */
export function copyLimits(limits: GPUSupportedLimits): Readonly<Record<string, number>> {
  const copy: Record<string, number> = {}
  for (const name in limits) {
    const value: unknown = limits[name as keyof GPUSupportedLimits]
    if (typeof value === 'number') copy[name] = value
  }
  return copy
}

function firstNonEmpty(...texts: readonly string[]): string | undefined {
  return texts.find((text) => text !== '')
}
