import { describe, it } from 'vitest'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { OpenTarget } from '@egpu/core'
import { driverCompliance } from '@egpu/core/testing'
import type { Rig } from '@egpu/core/testing'
import { wgpuDriver } from '../src/index.ts'
import { prepareLossRig } from '../src/testing/index.ts'
import { startSteps } from './support/workload.ts'

/** SwiftShader that passes for a graphics card, under the loss layer: the layer is the hand on the cable. */
function rigOrReason(): ReturnType<typeof prepareLossRig> | string {
  try {
    return prepareLossRig({ disguise: 'Test GPU' })
  } catch (error) {
    if (EGpuError.is(error)) return error.message
    throw error
  }
}

async function workUntilLost(target: OpenTarget): Promise<never> {
  const device = target.handle as GPUDevice
  const steps = startSteps(device)
  const staging = device.createBuffer({ size: 4, usage: 0x1 | 0x8 })
  for (;;) {
    steps.step()
    try {
      await staging.mapAsync(0x1)
      staging.unmap()
    } catch (cause) {
      throw new EGpuError(EGpuErrorCode.DeviceLost, 'the device was lost during work', { cause })
    }
  }
}

const prepared = rigOrReason()
if (typeof prepared === 'string') it('driver compliance', (context) => context.skip(prepared))
else {
  Object.assign(process.env, prepared.environment)
  const { control } = prepared
  driverCompliance({ describe, it }, (): Rig => {
    control.heal()
    const driver = wgpuDriver({ heartbeat: { intervalMs: 10 } })
    // A GPU object of a machine without any adapter.
    const unusable = wgpuDriver({ gpu: { requestAdapter: async () => null } as unknown as GPU })
    return {
      driver,
      unusable,
      hands: {
        // No hand to plug: rules of the re-plug wait for events, and WebGPU has none. driver.test.ts has the return.
        unplug: () => control.lose({ hide: true }),
        wedge: () => control.lose(),
        work: workUntilLost,
      },
      [Symbol.asyncDispose]: async () => {
        await driver.close()
        await unusable.close()
      },
    }
  })
}
