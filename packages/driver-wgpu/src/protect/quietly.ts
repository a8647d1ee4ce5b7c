import { errorFilters } from '../flags.ts'

/** Makes something on the device that may be refused, and that nobody is to hear of. What is thrown is thrown. */
export function quietly<T>(device: GPUDevice, make: () => T): T {
  for (const filter of errorFilters) device.pushErrorScope(filter)
  try {
    return make()
  } finally {
    for (const _ of errorFilters) device.popErrorScope().catch(() => {})
  }
}
