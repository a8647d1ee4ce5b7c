export type { DriverCapabilities, EGpuDriver, HealthCapability, ProbeResult, RuntimeCapability } from './driver.ts'
export type { DriverEvent, ResyncReason } from './events.ts'
export type { DeviceObservation, DriverSnapshot } from './observation.ts'
export type {
  DeviceHolder,
  PassthroughCapability,
  PassthroughPlan,
  PlanOutcome,
  PlanStep,
  RunPlanOptions,
  SafeRemovalCapability,
  SystemPlan,
} from './system-change.ts'
export { acceptedSpecVersions } from './spec-version.ts'
export { EventQueue } from './event-queue.ts'
