import { beforeEach } from 'vitest'
import { EGpuError } from '@egpu/core'
import { prepareLossRig } from '../../src/testing/index.ts'
import type { LossControl, LossRig } from '../../src/testing/index.ts'

function prepare(): LossRig | string {
  try {
    return prepareLossRig()
  } catch (error) {
    if (EGpuError.is(error)) return error.message
    throw error
  }
}

const prepared = prepare()
if (typeof prepared !== 'string') Object.assign(process.env, prepared.environment)

/**
 * SwiftShader under the loss layer, for the tests of one file. Tests are skipped, with the reason, where it cannot be
 * had. Every test begins with the device in its slot.
 */
export function useRealVulkan(): LossControl {
  beforeEach((context) => {
    if (typeof prepared === 'string') context.skip(prepared)
    else prepared.control.heal()
  })
  return typeof prepared === 'string' ? (undefined as never) : prepared.control
}
