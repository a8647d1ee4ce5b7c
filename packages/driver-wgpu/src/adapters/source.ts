import type { AbortOptions, Finding } from '@egpu/core'
import type { AdapterSeen } from './adapter-seen.ts'
import type { Pin, WantedGpu } from './pin.ts'
import type { VulkanDevice } from './vulkan-devices.ts'

/** Where adapters come from. Every look starts from nothing: an implementation that has looked once may not look again. */
export interface AdapterSource {
  /** Why there is nothing to be seen, as a sentence; `undefined` when there is something. */
  refusal(options: AbortOptions): Promise<string | undefined>
  look(options: AbortOptions): Promise<readonly AdapterSeen[]>
  /** What Vulkan tells of the same devices, in the same order; empty where nobody can tell. */
  identify(options: AbortOptions): Promise<readonly VulkanDevice[]>
  /** What a person should know about the drivers. */
  findings(options: AbortOptions): Promise<readonly Finding[]>
  /** What makes a process open this GPU; rejects like `WgpuDriver.pin`. */
  pin(wanted: WantedGpu, options: AbortOptions): Promise<Pin>
}
