import { abandonable, EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import { hostPlatform, resolvePackage, vulkanEnvironment } from '../host.ts'
import { describeAdapter } from './adapter-seen.ts'
import type { AdapterSeen, FreshAdapter } from './adapter-seen.ts'
import { explainFailure } from './explain.ts'
import { nobody, parseListing, withoutDetours } from './listing.ts'
import type { ListedAdapter } from './listing.ts'
import { lookInChild } from './look-in-child.ts'
import type { AdapterSource } from './source.ts'
import { listVulkanDevices } from './vulkan-devices.ts'
import type { VulkanDevice } from './vulkan-devices.ts'

interface DawnModule {
  create(flags: readonly string[]): GPU
}

/** Sets of drivers that another process has loaded unharmed, by what chooses them. */
const trusted = new Set<string>()

/**
 * Adapters of the optional peer `webgpu` (Dawn for Node). A Dawn instance sees the GPUs that were there when it was
 * made: one made before a re-plug answers with stale adapters, or with none for ever. So every look and every request
 * makes an instance of its own.
 */
export function dawnSource(flags: readonly string[]): AdapterSource {
  let loading: Promise<DawnModule> | undefined

  const choice = (): string => JSON.stringify([flags, vulkanEnvironment()])

  const refusal = async (options: AbortOptions): Promise<string | undefined> => {
    const outcome = await lookInChild(flags, options)
    // Where no process can be started there is only one way to find out.
    if (outcome === undefined || outcome.kind === 'listed') {
      trusted.add(choice())
      return undefined
    }
    trusted.delete(choice())
    return explainFailure(outcome, hostPlatform())
  }

  const load = (): Promise<DawnModule> => {
    loading ??= importDawn()
    return loading
  }

  const look = async (options: AbortOptions): Promise<readonly AdapterSeen[]> => {
    // The application's own process loads the drivers only after another has done so unharmed.
    if (!trusted.has(choice()) && (await refusal(options)) !== undefined) return []
    const dawn = await abandonable(load(), options.signal)
    const listed = withoutDetours(await abandonable(listAdapters(dawn, flags), options.signal))
    const seen: AdapterSeen[] = []
    for (const one of new Map(listed.map((entry) => [`${entry.backend}:${entry.name}`, entry])).values()) {
      const request = (): Promise<FreshAdapter | undefined> => requestListed(dawn, flags, one)
      const fresh = await abandonable(request(), options.signal)
      if (fresh === undefined) continue
      const twins = listed.filter(({ backend, name }) => backend === one.backend && name === one.name).length
      const described = describeAdapter(fresh.adapter, one, request)
      seen.push(described)
      // Dawn always gives the first of several identical GPUs, so the others can be shown but not opened.
      for (let n = 2; n <= twins; n += 1) seen.push({ ...described, key: `${described.key}#${n}`, request: undefined })
    }
    return seen
  }

  const identify = async ({ signal }: AbortOptions): Promise<readonly VulkanDevice[]> => {
    try {
      return await listVulkanDevices({ signal })
    } catch (error) {
      signal?.throwIfAborted()
      if (EGpuError.is(error)) return []
      throw error
    }
  }

  return { refusal, look, identify }
}

async function importDawn(): Promise<DawnModule> {
  const url = resolvePackage('webgpu')
  if (url === undefined) {
    throw new EGpuError(EGpuErrorCode.NativeUnavailable, 'the package webgpu is not installed: npm install webgpu', {
      driver: 'wgpu',
    })
  }
  return (await import(/* @vite-ignore */ /* webpackIgnore: true */ url)) as DawnModule
}

async function listAdapters(dawn: DawnModule, flags: readonly string[]): Promise<readonly ListedAdapter[]> {
  try {
    await dawn.create([...flags, `adapter=${nobody}`]).requestAdapter()
    return []
  } catch (error) {
    return parseListing((error as Error).message)
  }
}

async function requestListed(
  dawn: DawnModule,
  flags: readonly string[],
  listed: ListedAdapter,
): Promise<FreshAdapter | undefined> {
  const gpu = dawn.create([...flags, `backend=${listed.backend}`, `adapter=${listed.name}`])
  try {
    const adapter = await gpu.requestAdapter()
    return adapter === null ? undefined : { adapter, keepAlive: gpu }
  } catch {
    // It was listed a moment ago and is gone: Dawn answers with the list of those that are left.
    return undefined
  }
}
