export { simDriver } from './driver.ts'
export type { SimDriver, SimDriverOptions } from './driver.ts'
export type { SimMachine } from './machine.ts'
export type { SimEnclosure } from './enclosure.ts'
export type { SimCard } from './card.ts'
export type {
  SimBacking,
  SimBackingDevice,
  SimEnclosureDescription,
  SimGpuDescription,
  SimMachineDescription,
  SimTiming,
} from './descriptions.ts'
export type { SimBuffer, SimBytes, SimGpu, SimKernel, SimKernelCost, SimRange, SimReadRange } from './sim-gpu.ts'
export { seededRandom } from './random.ts'
export type { Random } from './random.ts'
export { VirtualClock } from './virtual-clock.ts'
