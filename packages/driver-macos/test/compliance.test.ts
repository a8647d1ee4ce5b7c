import { driverCompliance } from '@egpu/core/testing'
import type { Rig } from '@egpu/core/testing'
import { describe, it } from 'vitest'
import { macosDriver, plistSource } from '../src/index.ts'
import { EGpuMac, gpuKey } from './egpu-mac.ts'
import { positives } from './cases.ts'
import type { MacCase } from './cases.ts'
import { toPlist } from './registry-tree.ts'

async function liveRig(mode: 'poll' | 'push'): Promise<Rig> {
  const machine = await EGpuMac.boot()
  const driver = machine.driver({}, { mode })
  const nowhere = { ioKit: '/nowhere/IOKit', coreFoundation: '/nowhere/CoreFoundation' }
  const unusable = machine.driver({}, { libraries: nowhere })
  return {
    driver,
    unusable,
    subject: gpuKey,
    hands: {
      plug: () => machine.plug(),
      unplug: () => machine.unplug(),
      wedge: () => machine.wedge(),
      overflow: () => machine.overflow(),
    },
    async [Symbol.asyncDispose]() {
      await driver.close()
      await unusable.close()
    },
  }
}

function dumpRig(): Rig {
  const [first] = positives
  const driver = macosDriver({ source: plistSource(toPlist((first as MacCase).tree())) })
  const unusable = macosDriver({ source: plistSource('<plist') })
  return {
    driver,
    unusable,
    async [Symbol.asyncDispose]() {
      await driver.close()
      await unusable.close()
    },
  }
}

describe('on IOKit, polling', () => {
  driverCompliance({ describe, it }, () => liveRig('poll'))
})
describe('on IOKit, pushed', () => {
  driverCompliance({ describe, it }, () => liveRig('push'))
})
describe('on a dump', () => {
  driverCompliance({ describe, it }, dumpRig)
})
