export { Changes } from './checkpoint/changes.ts'
export type { FreezeMark } from './checkpoint/changes.ts'
export { CheckpointManager } from './checkpoint/checkpoint-manager.ts'
export type {
  CheckpointManagerOptions,
  DrainProgress,
  SaveOptions,
  StoredState,
} from './checkpoint/checkpoint-manager.ts'
export { memoryStore } from './checkpoint/memory-store.ts'
export { exportCheckpoint, importCheckpoint } from './checkpoint/one-file.ts'
export { Pace } from './checkpoint/pace.ts'
export type { PaceLimits, PaceOptions } from './checkpoint/pace.ts'
export { rescuePlan } from './checkpoint/rescue.ts'
export type { RescueCandidate, RescueLimits } from './checkpoint/rescue.ts'
export type { Retention } from './checkpoint/retention.ts'
export type {
  Carry,
  CheckpointDraft,
  CheckpointRecord,
  CheckpointStore,
  CheckpointWriter,
  DamagedCheckpoint,
} from './checkpoint/store.ts'
export type { MigrationConfig, TargetLink } from './config.ts'
export { cpuTarget } from './cpu-target.ts'
export type { CpuTargetOptions } from './cpu-target.ts'
export type { MigratorHost } from './host.ts'
export type { PlacementConstraints } from './placement/constraints.ts'
export { incompatibility } from './placement/compatibility.ts'
export type { TargetUse } from './placement/occupancy.ts'
export type { DeviceRecord, JournalRecord, JournalTarget, MigrationJournal } from './journal/journal.ts'
export { estimate } from './placement/cost.ts'
export type { Circumstances, Estimate, Job } from './placement/cost.ts'
export { chooseTarget, passedOver, rankTargets } from './placement/planner.ts'
export type { PassedOver, PlacementQuestion } from './placement/planner.ts'
export { probeTarget } from './placement/probe.ts'
export type { ProbeHands, ProbeOptions } from './placement/probe.ts'
export type { ProbeWith } from './placement/probes.ts'
export type { MeasuredRates } from './placement/rates.ts'
export { FailurePredictor } from './predictor/failure-predictor.ts'
export type { Forecast } from './predictor/failure-predictor.ts'
export { FaultHistory } from './predictor/fault-history.ts'
export type { Sign } from './predictor/detector.ts'
export type { QueuedMigration } from './run/slots.ts'
export { RunState } from './run/workload-run.ts'
export type { RunOptions, WorkloadRun } from './run/workload-run.ts'
export { MigrationStrategy } from './strategy.ts'
export type { MigrationPolicy, Offer, Warning, WarningAnswer, WorkloadView } from './strategy.ts'
export { WorkloadMigrator } from './workload-migrator.ts'
