export { abandonable } from './abort.ts'
export type { AbortOptions } from './abort.ts'
export { systemClock } from './clock.ts'
export type { Clock } from './clock.ts'
export { enclosureModel, enclosureModels, findEnclosureModels } from './enclosures/find.ts'
export type { EnclosureMatch, EnclosureTraits } from './enclosures/find.ts'
export { EnclosureInterface } from './enclosures/model.ts'
export type { EnclosureModel } from './enclosures/model.ts'
export { EGpuError, EGpuErrorCode } from './error.ts'
export type { EGpuErrorOptions } from './error.ts'
export { thunderboltPayloadGBps } from './bandwidth/cable.ts'
export { breakEvenBatch, breakEvenKernelUs, dispatchOverheadShare } from './bandwidth/dispatch.ts'
export type { DispatchCost } from './bandwidth/dispatch.ts'
export { nativeSlot, predictEfficiency, workTime } from './bandwidth/efficiency.ts'
export type { EfficiencyPrediction, GpuRates, LinkRates, WorkloadProfile, WorkTime } from './bandwidth/efficiency.ts'
export { egpuOrCloud } from './bandwidth/egpu-or-cloud.ts'
export type { EGpuOrCloudAdvice, EGpuOrCloudQuestion, OfferCost } from './bandwidth/egpu-or-cloud.ts'
export { linkReport, pathBandwidth } from './bandwidth/link-report.ts'
export type { LinkFacts, PathBandwidth } from './bandwidth/link-report.ts'
export { pcieHopGBps, pcieTable } from './bandwidth/pcie.ts'
export type { PcieGeneration } from './bandwidth/pcie.ts'
export { oculinkTable, ThunderboltSpeed, thunderboltTable, Usb4Version, usb4Table } from './bandwidth/thunderbolt.ts'
export type { CableNumbers } from './bandwidth/thunderbolt.ts'
export { transferTimeMs } from './bandwidth/transfer.ts'
export type { DisconnectPlan, DisconnectResult, GuestVeto } from './manager/disconnect-result.ts'
export type { DriverStatus } from './manager/driver-status.ts'
export type { Guest, LeaveResult } from './manager/guest.ts'
export { EGpuManager } from './manager/manager.ts'
export type {
  DeviceOverride,
  DisconnectOptions,
  EGpuManagerOptions,
  EventsOptions,
  MonitoringOptions,
  NextOptions,
} from './manager/options.ts'
export { GpuDeviceRegistry } from './registry/registry.ts'
export type { GpuDeviceRegistryOptions, RegistryEntry, StateChange } from './registry/registry.ts'
export { GpuDeviceState } from './registry/states.ts'
export { transitions } from './registry/transitions.ts'
export { routeBackend } from './routing/route.ts'
export type { BackendRoute, HostTraits, RoutableDevice, RuntimeChoice, RuntimeRefusal } from './routing/types.ts'
export type { AppleSiliconEGpuInfo } from './types/apple.ts'
export type {
  Checkpointable,
  FrozenState,
  SavedState,
  StagedState,
  StatePart,
  ReadOptions,
  StateRange,
  WorkloadNeeds,
} from './types/checkpointable.ts'
export { EGpuPowerState } from './types/device.ts'
export type { DeviceIdentity, DeviceSource, DisplayId, EGpuDevice, GpuDescription } from './types/device.ts'
export type { Enclosure } from './types/enclosure.ts'
export type {
  EGpuEvent,
  EGpuEventType,
  MigrationInfo,
  MigrationOutcome,
  MigrationStep,
  TransferProgress,
  UnstampedEvent,
} from './types/events.ts'
export type { Finding } from './types/finding.ts'
export type { HealthComponents, HealthSample, HealthScore } from './types/health.ts'
export type { Bottleneck, DuplexGBps, LinkDowngrade, LinkReport, PcieHop, TrainedLanes } from './types/link.ts'
export { RuntimeKind } from './types/target.ts'
export type { ComputeTarget, OpenTarget, TargetLoss } from './types/target.ts'
export { GpuVendor, vendorOfPciId } from './types/vendor.ts'
export { Transport, unknownVerdict } from './types/verdict.ts'
export type { Evidence, Verdict } from './types/verdict.ts'
export type { ResyncReason } from './driver/events.ts'
export type {
  DeviceHolder,
  PassthroughPlan,
  PlanOutcome,
  PlanStep,
  RunPlanOptions,
  SystemPlan,
} from './driver/system-change.ts'
