import type { FieldEngine } from './engine.ts'
import { stepField } from './gray-scott.ts'

/** The field on the processor. `afterSteps` gives way to other work of the process, or lets virtual time pass. */
export function cpuEngine(size: number, afterSteps: (steps: number) => Promise<void>): FieldEngine {
  let current = new Uint32Array(size * size)
  let next = new Uint32Array(size * size)
  return {
    load: async (field) => {
      new Uint8Array(current.buffer).set(field)
    },
    advance: async (steps) => {
      for (let step = 0; step < steps; step += 1) {
        stepField(current, next, size)
        ;[current, next] = [next, current]
      }
      await afterSteps(steps)
    },
    copy: async () => {
      const bytes = new Uint8Array(current.slice().buffer)
      return { read: async () => bytes, dispose: async () => {} }
    },
    read: async () => new Uint8Array(current.slice().buffer),
  }
}
