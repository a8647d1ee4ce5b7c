import { RuntimeKind, type ComputeTarget } from '@egpu/core'
import type { SimBacking } from '@egpu/driver-sim'
import { wgpuDriver, type WgpuDriver } from '@egpu/driver-wgpu'
import { prepareLossRig, type LossRig } from '@egpu/driver-wgpu/testing'

/** A WebGPU device for the simulated enclosure, or why there is none. */
export type WebGpuBacking = {
  readonly close: () => Promise<void>
} & (
  | { readonly backing: SimBacking; readonly adapter: ComputeTarget; readonly loss: 'destroyed' | 'lost by the driver' }
  | { readonly backing: undefined; readonly reason: string }
)

/**
 * Puts a WebGPU device behind the simulated enclosure. Pulling the cable destroys it; with `realLoss` the Vulkan driver
 * answers VK_ERROR_DEVICE_LOST instead, as it does when a real cable is pulled.
 */
export async function webGpuBacking({ realLoss }: { readonly realLoss: boolean }): Promise<WebGpuBacking> {
  // The rig's environment counts only if it is set before anything loads Vulkan.
  const rig = realLoss ? prepareLossRig() : undefined
  if (rig !== undefined) Object.assign(process.env, rig.environment)
  const driver = wgpuDriver({ heartbeat: {} })
  const close = async (): Promise<void> => {
    await driver.close()
    rig?.[Symbol.dispose]()
  }
  const probe = await driver.probe()
  if (!probe.usable) return { backing: undefined, reason: probe.reason, close }
  const targets = await driver.runtime.targets()
  const adapter = targets.find(({ kind }) => kind === 'gpu') ?? targets[0]
  if (adapter === undefined) return { backing: undefined, reason: 'WebGPU has no adapter here', close }
  return {
    backing: backingOf(driver, adapter, rig),
    adapter,
    loss: rig === undefined ? 'destroyed' : 'lost by the driver',
    close,
  }
}

function backingOf(driver: WgpuDriver, adapter: ComputeTarget, rig: LossRig | undefined): SimBacking {
  return {
    runtime: RuntimeKind.WebGpu,
    limits: adapter.limits,
    features: adapter.features,
    open: async (options) => {
      rig?.control.heal()
      const opened = await driver.runtime.open(adapter.id, options)
      return {
        handle: opened.handle,
        lost: opened.lost,
        destroy: () => {
          if (rig === undefined) void opened.close()
          else rig.control.lose({ hide: true })
        },
      }
    },
  }
}
