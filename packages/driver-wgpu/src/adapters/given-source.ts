import { abandonable, EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AdapterSource } from './source.ts'
import { describeAdapter } from './adapter-seen.ts'
import type { AdapterSeen } from './adapter-seen.ts'

/** What `requestAdapter` can be asked for; different answers are different adapters. */
const questions: readonly GPURequestAdapterOptions[] = [
  { powerPreference: 'high-performance' },
  { powerPreference: 'low-power' },
  { forceFallbackAdapter: true },
]

/** Adapters of a `GPU` object that is there already: the browser's, Deno's, or one that was handed over. */
export function givenSource(gpu: GPU): AdapterSource {
  const look = async (): Promise<readonly AdapterSeen[]> => {
    const seen = new Map<string, AdapterSeen>()
    for (const question of questions) {
      const adapter = await gpu.requestAdapter(question)
      if (adapter === null) continue
      const described: AdapterSeen = describeAdapter(adapter, undefined, async () => {
        const fresh = await gpu.requestAdapter(question)
        // The same question has another answer once the GPU that was meant is gone.
        const isSame = fresh !== null && describeAdapter(fresh, undefined, undefined).key === described.key
        return isSame ? { adapter: fresh, keepAlive: gpu } : undefined
      })
      if (!seen.has(described.key)) seen.set(described.key, described)
    }
    return [...seen.values()]
  }
  return {
    look: ({ signal }) => abandonable(look(), signal),
    identify: () => Promise.resolve([]),
    findings: () => Promise.resolve([]),
    pin: () => {
      const reason = 'a GPU object that was handed over chooses its adapters itself'
      return Promise.reject(new EGpuError(EGpuErrorCode.NativeUnavailable, reason, { driver: 'wgpu' }))
    },
    refusal: async ({ signal }) => {
      const seen = await abandonable(look(), signal)
      return seen.length > 0
        ? undefined
        : 'WebGPU is there but gives no adapter: its GPU is blocked, or switched off in the browser'
    },
  }
}
