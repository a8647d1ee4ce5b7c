import { EGpuError, EGpuErrorCode } from '../../src/index.ts'
import { EventQueue } from '../../src/driver/index.ts'
import type { DriverEvent, DriverSnapshot, EGpuDriver } from '../../src/driver/index.ts'
import type { Rig } from '../../src/testing/index.ts'

/** The least a driver can be: one device that never changes, and nothing to do with it. */
export function staticRig(change: Partial<EGpuDriver> = {}): Rig {
  const snapshot: DriverSnapshot = Object.freeze({
    devices: Object.freeze([
      Object.freeze({
        key: 'static:a1b2',
        identity: Object.freeze({}),
        gpu: Object.freeze({}),
        stage: 'present' as const,
      }),
    ]),
    enclosures: Object.freeze([]),
    findings: Object.freeze([]),
  })
  const queues = new Set<EventQueue<DriverEvent>>()
  let closed = false
  const close = (): Promise<void> => {
    closed = true
    for (const queue of queues) queue.end()
    return Promise.resolve()
  }
  const driver: EGpuDriver = {
    specVersion: 1,
    name: 'static',
    capabilities: {
      hotplug: false,
      verdict: false,
      health: false,
      safeRemoval: false,
      passthrough: false,
      runtimes: [],
    },
    probe: async ({ signal } = {}) => {
      signal?.throwIfAborted()
      return { usable: true }
    },
    list: async ({ signal } = {}) => {
      signal?.throwIfAborted()
      if (closed) throw new EGpuError(EGpuErrorCode.Closed, 'the static driver was closed')
      return snapshot
    },
    watch: ({ signal }) => {
      const queue = new EventQueue<DriverEvent>({ signal })
      queues.add(queue)
      queue.push({ type: 'resync', reason: 'started', snapshot })
      if (closed) queue.end()
      return queue
    },
    close,
    [Symbol.asyncDispose]: close,
    ...change,
  }
  return { driver, [Symbol.asyncDispose]: close }
}
