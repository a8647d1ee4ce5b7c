import type { SimGpu } from '@egpu/driver-sim'
import type { FieldEngine } from './engine.ts'
import { stepField } from './gray-scott.ts'

/** Integer operations per cell and step, counted in `stepField`; what the simulator's clock charges. */
const operationsPerCell = 40

/** The field in the memory of a simulated GPU. The steps are computed for real, in the time the model says. */
export function simEngine(gpu: SimGpu, size: number): FieldEngine {
  const cells = size * size
  let current = gpu.createBuffer(cells * 4)
  let next = gpu.createBuffer(cells * 4)
  return {
    load: (field, signal) => gpu.write(current, field, { signal }),
    advance: async (steps) => {
      const [from, to] = [current, next]
      await gpu.run(
        (bytes) => {
          let [source, target] = [new Uint32Array(bytes(from)), new Uint32Array(bytes(to))]
          for (let step = 0; step < steps; step += 1) {
            stepField(source, target, size)
            ;[source, target] = [target, source]
          }
        },
        { flops: cells * operationsPerCell * steps, vramBytes: cells * 8 * steps },
      )
      if (steps % 2 === 1) [current, next] = [next, current]
    },
    copy: async (signal) => {
      const shadow = gpu.createBuffer(cells * 4)
      try {
        await gpu.copy(current, shadow, { signal })
      } catch (error) {
        gpu.destroyBuffer(shadow)
        throw error
      }
      return { read: (options) => gpu.read(shadow, options), dispose: async () => gpu.destroyBuffer(shadow) }
    },
    read: () => gpu.read(current),
  }
}
