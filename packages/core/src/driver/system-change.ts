import type { AbortOptions } from '../abort.ts'

/** A process that keeps a device from going. */
export interface DeviceHolder {
  readonly pid: number
  readonly name?: string | undefined
  readonly user?: string | undefined
  /** What it holds: a device node, DRM master, a VM. */
  readonly holds: string
}

/** One step of a plan: shown to a person before it is run. */
export interface PlanStep {
  readonly id: string
  /** What it does, in a sentence. */
  readonly title: string
  /** The exact change, as a person could type it: `echo 1 > /sys/bus/pci/devices/0000:04:00.0/remove`. */
  readonly command?: string | undefined
  /** How it is taken back if a later step fails; absent when it cannot be. */
  readonly undo?: string | undefined
}

/** A change to the system, worked out but not done. */
export interface SystemPlan {
  readonly key: string
  readonly steps: readonly PlanStep[]
  /** Nobody may hold the device when the plan is run. */
  readonly holders: readonly DeviceHolder[]
  /** Reasons why it cannot be run at all. */
  readonly refusals: readonly string[]
  /** What the person should know: other advice for a device that is dead already, for one. */
  readonly notes: readonly string[]
}

/** How running a plan ended. */
export type PlanOutcome =
  | { readonly done: true }
  | {
      readonly done: false
      /** The step that failed; `undefined` when it was refused before the first. */
      readonly failedStep: string | undefined
      readonly reason: string
      /** Steps that were taken back. */
      readonly undone: readonly string[]
      readonly holders: readonly DeviceHolder[]
    }

export interface RunPlanOptions extends AbortOptions {
  readonly onStep?: ((step: PlanStep, status: 'started' | 'done' | 'failed' | 'undone') => void) | undefined
}

export interface SafeRemovalCapability {
  /** Changes nothing. Rejects with `EGPU_DEVICE_NOT_FOUND` for an unknown key. */
  plan(key: string, options?: AbortOptions): Promise<SystemPlan>
  /** Looks again for holders, refuses if there are any, then runs the steps in order. Undoes what it can on failure. */
  run(plan: SystemPlan, options?: RunPlanOptions): Promise<PlanOutcome>
}

/** A plan to hand a GPU to a virtual machine. */
export interface PassthroughPlan extends SystemPlan {
  /** PCI addresses that go together. */
  readonly functions: readonly string[]
  readonly iommuGroup?: number | undefined
  /** Ready arguments for QEMU once the plan has run. */
  readonly qemuArguments: readonly string[]
  readonly libvirtXml: string
}

export interface PassthroughCapability {
  plan(key: string, options?: AbortOptions): Promise<PassthroughPlan>
  bind(plan: PassthroughPlan, options?: RunPlanOptions): Promise<PlanOutcome>
  /** Gives the functions back to their own drivers. */
  release(key: string, options?: RunPlanOptions): Promise<PlanOutcome>
}
