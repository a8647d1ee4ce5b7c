import { afterAll, beforeEach } from 'vitest'
import { EGpuError } from '@egpu/core'
import { prepareLossRig } from '../../src/testing/index.ts'
import type { LossControl, LossRig, LossRigOptions } from '../../src/testing/index.ts'

function prepare(options: LossRigOptions): LossRig | string {
  try {
    return prepareLossRig(options)
  } catch (error) {
    if (EGpuError.is(error)) return error.message
    throw error
  }
}

/**
 * SwiftShader under the loss layer, for the tests of one file; to be called before anything loads Vulkan. Tests are
 * skipped, with the reason, where it cannot be had. Every test begins with the device in its slot.
 */
export function useRealVulkan(options: LossRigOptions = {}): LossControl {
  const prepared = prepare(options)
  if (typeof prepared !== 'string') Object.assign(process.env, prepared.environment)
  beforeEach((context) => {
    if (typeof prepared === 'string') context.skip(prepared)
    else prepared.control.heal()
  })
  afterAll(() => {
    if (typeof prepared !== 'string') prepared[Symbol.dispose]()
  })
  return typeof prepared === 'string' ? (undefined as never) : prepared.control
}
