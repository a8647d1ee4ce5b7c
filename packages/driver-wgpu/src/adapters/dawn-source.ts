import { abandonable, EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import { loadNative, resolvePackage, withEnvironment } from '../host.ts'
import { keepForAWhile } from '../device/held-devices.ts'
import { describeAdapter } from './adapter-seen.ts'
import type { AdapterSeen, FreshAdapter } from './adapter-seen.ts'
import { chooseDrivers, knownChoice } from './driver-choice.ts'
import { nobody, parseListing, withoutDetours } from './listing.ts'
import type { ListedAdapter } from './listing.ts'
import type { AdapterSource } from './source.ts'
import { pinGpu } from './pin.ts'
import type { VulkanDevice } from './vulkan-devices.ts'

interface DawnModule {
  create(flags: readonly string[]): GPU
}

export interface DawnOptions {
  /** For `create()`. */
  readonly flags: readonly string[]
  readonly cpuFallback: boolean
  /** How long a driver may take to load. */
  readonly timeoutMs: number
}

type Variables = Readonly<Record<string, string>>

/**
 * Adapters of the optional peer `webgpu` (Dawn for Node). A Dawn instance sees the GPUs that were there when it was
 * made: one made before a re-plug answers with stale adapters, or with none for ever. So every look and every request
 * makes an instance of its own.
 */
export function dawnSource(options: DawnOptions): AdapterSource {
  const { flags } = options
  let loading: Promise<DawnModule> | undefined

  const load = (): Promise<DawnModule> => {
    loading ??= importDawn()
    return loading
  }

  const lookWith = async (variables: Variables, { signal }: AbortOptions): Promise<readonly AdapterSeen[]> => {
    const dawn = await abandonable(load(), signal)
    const listed = withoutDetours(await abandonable(listAdapters(dawn, flags, variables), signal))
    const seen: AdapterSeen[] = []
    for (const one of new Map(listed.map((entry) => [`${entry.backend}:${entry.name}`, entry])).values()) {
      const request = (): Promise<FreshAdapter | undefined> => requestListed(dawn, flags, one, variables)
      const fresh = await abandonable(request(), signal)
      if (fresh === undefined) continue
      const twins = listed.filter(({ backend, name }) => backend === one.backend && name === one.name).length
      const described = describeAdapter(fresh.adapter, one, request)
      seen.push(described)
      // Dawn always gives the first of several identical GPUs, so the others can be shown but not opened.
      for (let n = 2; n <= twins; n += 1) seen.push({ ...described, key: `${described.key}#${n}`, request: undefined })
    }
    return seen
  }

  return {
    refusal: async (abort) => (await chooseDrivers({ ...options, ...abort })).refusal,

    look: async (abort) => {
      // The application's own process loads the drivers only after another has done so unharmed.
      const { gpus, cpu } = await knownChoice({ ...options, ...abort })
      const seen = gpus === undefined ? [] : await lookWith(gpus, abort)
      if (cpu === undefined || seen.some(({ software }) => software)) return seen
      return [...seen, ...(await lookWith(cpu, abort))]
    },

    identify: async (abort) => {
      const { gpus } = await knownChoice({ ...options, ...abort })
      const native = await loadNative()
      if (gpus === undefined || native === undefined) return []
      try {
        // On the spot, as Dawn does it itself: another process has made the same calls unharmed.
        return withEnvironment(gpus, () => native.listPhysicalDevices()) as readonly VulkanDevice[]
      } catch {
        return []
      }
    },

    pin: async (wanted, abort) => {
      const { gpus } = await knownChoice({ ...options, ...abort })
      return await pinGpu(wanted, { flags, environment: gpus ?? {}, ...abort })
    },

    findings: async (abort) => {
      const { broken } = await knownChoice({ ...options, ...abort })
      return broken.map(({ manifest, reason }) => ({
        code: 'vulkan-driver-broken',
        severity: 'warning',
        seen: `${reason.split(';')[0]}: the driver of ${manifest}, which is left out`,
        advice: `Update or remove that driver: other programs that use Vulkan load it too.`,
        evidence: [{ source: manifest, value: undefined }],
      }))
    },
  }
}

async function importDawn(): Promise<DawnModule> {
  const url = resolvePackage('webgpu')
  if (url === undefined) {
    throw new EGpuError(EGpuErrorCode.NativeUnavailable, 'the package webgpu is not installed: npm install webgpu', {
      driver: 'wgpu',
    })
  }
  const dawn = (await import(/* @vite-ignore */ /* webpackIgnore: true */ url)) as DawnModule
  // Most instances are looked at once and dropped.
  return { create: (flags) => keepForAWhile(dawn.create(flags)) }
}

async function listAdapters(
  dawn: DawnModule,
  flags: readonly string[],
  variables: Variables,
): Promise<readonly ListedAdapter[]> {
  try {
    await withEnvironment(variables, () => dawn.create([...flags, `adapter=${nobody}`]).requestAdapter())
    return []
  } catch (error) {
    return parseListing((error as Error).message)
  }
}

async function requestListed(
  dawn: DawnModule,
  flags: readonly string[],
  listed: ListedAdapter,
  variables: Variables,
): Promise<FreshAdapter | undefined> {
  const wanted = [...flags, `backend=${listed.backend}`, `adapter=${listed.name}`]
  try {
    // Dawn loads Vulkan, with the drivers that the environment names, before `requestAdapter` returns.
    const { gpu, asking } = withEnvironment(variables, () => {
      const fresh = dawn.create(wanted)
      return { gpu: fresh, asking: fresh.requestAdapter() }
    })
    const adapter = await asking
    return adapter === null ? undefined : { adapter, keepAlive: gpu }
  } catch {
    // It was listed a moment ago and is gone: Dawn answers with the list of those that are left.
    return undefined
  }
}
