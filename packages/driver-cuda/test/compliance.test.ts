import { driverCompliance } from '@egpu/core/testing'
import { describe, it, vi } from 'vitest'
import { cudaDriver } from '../src/index.ts'
import { FakeMachine } from './machine.ts'

vi.setConfig({ testTimeout: 60_000 })

driverCompliance(
  { describe, it },
  () => {
    const machine = new FakeMachine()
    const driver = cudaDriver({ ...machine.libraries, sysfsRoot: machine.sysfsRoot, rescanMs: 20 })
    return {
      driver,
      subject: machine.uuid(0),
      hands: {
        plug: () => {
          machine.ctl('gpu', 0, 'lost', 0)
          machine.plug(0)
        },
        unplug: () => machine.unplug(0),
        wedge: () => {
          machine.ctl('gpu', 0, 'lost', 1)
          machine.ctl('event', 0, 0x8, 79)
        },
      },
      unusable: cudaDriver({ nvmlLibrary: 'libnvidia-ml-that-is-not-there.so.1' }),
      async [Symbol.asyncDispose]() {
        await driver.close()
        machine[Symbol.dispose]()
      },
    }
  },
  { patienceMs: 10_000 },
)
