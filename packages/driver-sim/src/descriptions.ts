import type { AbortOptions, DisplayId, RuntimeKind, TargetLoss, ThunderboltSpeed, Transport } from '@egpu/core'

/** A real runtime behind a simulated GPU: pulling the simulated cable then destroys the real device. */
export interface SimBacking {
  /** What targets of this GPU report as their runtime. */
  readonly runtime: RuntimeKind
  readonly limits?: Readonly<Record<string, number>> | undefined
  readonly features?: readonly string[] | undefined
  open(options?: AbortOptions): Promise<SimBackingDevice>
}

/** One opened device of a real runtime. */
export interface SimBackingDevice {
  /** Becomes `OpenTarget.handle`. */
  readonly handle: unknown
  /** Resolves when the real device is lost by itself; the target is then lost too. */
  readonly lost: Promise<TargetLoss>
  /** Makes the real device unusable at once; called when the cable is pulled, the GPU is reset or the target closed. */
  destroy(): void
}

/** A GPU. Everything is optional; what a real machine may not tell stays unknown unless it is given. */
export interface SimGpuDescription {
  /** The observation's key. By default made of ids and a serial number from the seed. */
  readonly id?: string | undefined
  readonly name?: string | undefined
  readonly vendorId?: number | undefined
  readonly deviceId?: number | undefined
  readonly subsystemVendorId?: number | undefined
  readonly subsystemDeviceId?: number | undefined
  /** From the seed by default. */
  readonly serial?: string | undefined
  readonly uuid?: string | undefined
  /** 8 GiB by default. Nothing is allocated until a buffer is. */
  readonly memoryBytes?: number | undefined
  /** Modelled arithmetic per second: 10^13 by default. */
  readonly flops?: number | undefined
  /** Modelled memory bandwidth in GB/s: 400 by default. */
  readonly memoryGBps?: number | undefined
  /** PCI Express of the card itself: 16 lanes at 16 GT/s by default. */
  readonly lanes?: number | undefined
  readonly gtPerSecond?: number | undefined
  readonly kernelDriver?: string | undefined
  readonly displayIds?: readonly DisplayId[] | undefined
  /** Draws this much when idle: 15 W by default. */
  readonly idleWatts?: number | undefined
  /** Draws this much under full load: 250 W by default. */
  readonly loadWatts?: number | undefined
  /** Where throttling starts: 83 °C by default. */
  readonly temperatureLimitCelsius?: number | undefined
  readonly backing?: SimBacking | undefined
}

/** A box for GPUs with a cable. */
export interface SimEnclosureDescription {
  /** Unique id of its router; from the seed by default. */
  readonly id?: string | undefined
  /** Id of a model in core's `enclosureModels`, `razer-core-x` for one: gives everything that is not given here. */
  readonly model?: string | undefined
  readonly name?: string | undefined
  readonly vendorName?: string | undefined
  readonly thunderboltVendorId?: number | undefined
  readonly thunderboltDeviceId?: number | undefined
  /** `thunderbolt` by default. An OCuLink box has no router, so the host sees its GPU but no enclosure. */
  readonly transport?: Transport | undefined
  /** What its controller and cable can do: Thunderbolt 3 by default. Ignored for OCuLink. */
  readonly speed?: ThunderboltSpeed | undefined
  /** PCI Express lanes of its slot: 4 by default. */
  readonly slotLanes?: number | undefined
  /** PCI Express rate of its slot: 8 GT/s by default, 16 for Thunderbolt 5 and OCuLink. */
  readonly slotGtPerSecond?: number | undefined
  readonly powerDeliveryWatts?: number | undefined
  readonly firmwareVersion?: string | undefined
  /** Whether the host lets it in by itself: true by default. */
  readonly authorized?: boolean | undefined
  readonly gpus?: readonly SimGpuDescription[] | undefined
  /** Plugged in from the start: `true` for any free port, or the port's name. */
  readonly plugged?: boolean | string | undefined
}

/** How long things take, in milliseconds of the machine's clock. Everything is immediate by default. */
export interface SimTiming {
  /** From the plug until the GPU is on the bus. */
  readonly presentAfterMs?: number | undefined
  /** From there until its driver is bound. */
  readonly readyAfterMs?: number | undefined
  /** How long `list()`, `health.sample()` and `runtime.open()` take. */
  readonly answerMs?: number | undefined
  /** How long each step of a safe removal takes. */
  readonly ejectStepMs?: number | undefined
}

export interface SimMachineDescription {
  /** Generation of the host's ports: Thunderbolt 4 by default. */
  readonly hostSpeed?: ThunderboltSpeed | undefined
  readonly enclosures?: readonly SimEnclosureDescription[] | undefined
  /** Internal GPUs. */
  readonly gpus?: readonly SimGpuDescription[] | undefined
  readonly timing?: SimTiming | undefined
  /** Room temperature: 25 °C by default. */
  readonly ambientCelsius?: number | undefined
}
