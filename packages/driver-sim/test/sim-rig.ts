import type { OpenTarget } from '@egpu/core'
import type { EGpuDriver } from '@egpu/core/driver'
import type { Rig } from '@egpu/core/testing'
import { simDriver } from '../src/index.ts'
import type { SimDriver, SimDriverOptions, SimGpu } from '../src/index.ts'

/** A plugged enclosure with one GPU beside an internal one; `change` may put a broken driver in front. */
export function simRig(
  change: (driver: SimDriver) => EGpuDriver = (driver) => driver,
  options: SimDriverOptions = {},
): Rig {
  const sim = simDriver({
    gpus: [{ id: 'soldered', name: 'Internal GPU' }],
    enclosures: [{ id: 'box', plugged: true, gpus: [{ id: 'boxed', name: 'External GPU', flops: 1e9 }] }],
    ...options,
  })
  const box = sim.machine.enclosure('box')
  const gpu = sim.machine.gpu('boxed')
  const closed = simDriver()
  void closed.close()
  return {
    driver: change(sim),
    subject: 'boxed',
    unusable: closed,
    hands: {
      plug: () => (box.port === undefined ? box.plug() : box.authorize()),
      unplug: () => box.yank(),
      wedge: () => gpu.wedge(),
      hold: () => gpu.hold({ pid: 77, name: 'ollama', holds: '/dev/dri/renderD129' }),
      overflow: () => sim.machine.overflow(),
      work: (target: OpenTarget) => (target.handle as SimGpu).run(() => undefined, { flops: 1e15 }),
    },
    [Symbol.asyncDispose]: () => sim.close(),
  }
}
