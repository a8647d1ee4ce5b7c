import type { Rig } from '@egpu/core/testing'
import { linuxDriver } from '../src/driver.ts'
import type { SourceListener } from '../src/watch/source.ts'
import { fromProperties } from '../src/watch/uevent.ts'
import { aorusKey, aorusPortB } from './machines/cases/aorus.ts'
import { FakeMachine } from './removal/fake-machine.ts'
import type { Properties } from './watch/messages.ts'

const holder = 4711

/** A box with a running GPU on a recorded machine, and hands that edit its tree and say what the kernel would say. */
export async function recordedRig(): Promise<Rig> {
  const machine = new FakeMachine(aorusPortB)
  machine.node('0000:2e:00.0', 'drm/card1', 'dri/card1', '226:1')
  const listeners = new Set<SourceListener>()
  let seqnum = 0
  machine.say = (properties: Properties) => {
    const event = fromProperties(new Map(Object.entries({ ...properties, SEQNUM: String(++seqnum) })))
    if (event !== undefined) for (const listener of listeners) listener({ type: 'uevent', event })
  }
  const driver = linuxDriver({
    sysfsRoot: machine.sysfsRoot,
    procRoot: machine.procRoot,
    execute: machine.execute,
    eventSource: async (listener) => {
      listeners.add(listener)
      const close = async (): Promise<void> => void listeners.delete(listener)
      return { kind: 'injected', close, [Symbol.asyncDispose]: close }
    },
  })
  return {
    driver,
    subject: aorusKey,
    unusable: linuxDriver({ sysfsRoot: '/nonexistent' }),
    hands: {
      plug: () => machine.restore(),
      unplug: () => {
        machine.takeRouter('1-1')
        machine.take('0000:2c:00.0')
      },
      wedge: () => {
        const DEVPATH = `${machine.devpath('0000:2e:00.0')}/drm/card1`
        machine.say({ ACTION: 'change', SUBSYSTEM: 'drm', DEVTYPE: 'drm_minor', DEVPATH, WEDGED: 'bus-reset' })
      },
      hold: () => {
        machine.process(holder, 'blender', 0, ['/dev/dri/card1'])
        return () => machine.end(holder)
      },
      overflow: () => {
        for (const listener of listeners) listener({ type: 'overflow' })
      },
    },
    [Symbol.asyncDispose]: async () => {
      await driver.close()
      machine[Symbol.dispose]()
    },
  }
}
