import { prepareLossRig } from '@egpu/driver-wgpu/testing'
import type { LossControl } from '@egpu/driver-wgpu/testing'

const rig = prepareLossRig()
// Vulkan is loaded once in a process, so all figures share one rig.
Object.assign(process.env, rig.environment)
process.once('exit', () => rig[Symbol.dispose]())

/** SwiftShader under the loss layer, for the whole bench. */
export const control: LossControl = rig.control

/** Resident memory after everything that can be freed was. */
export function settledRss(): number {
  for (let round = 0; round < 3; round += 1) globalThis.gc?.()
  return process.memoryUsage().rss
}
