export { simDriver } from './driver.ts'
export type { SimDriver, SimDriverOptions } from './driver.ts'
export type { SimMachine } from './machine.ts'
export type { Downtrained, SimEnclosure } from './sim-enclosure.ts'
export type { ErrorCounts, SimCard } from './sim-card.ts'
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
export { playScenario, randomScenario } from './scenario.ts'
export type { RandomScenarioOptions, ScenarioAction, ScenarioStep } from './scenario.ts'
