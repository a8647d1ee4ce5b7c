import { EGpuError, EGpuErrorCode, abandonable, systemClock } from '@egpu/core'
import type { AbortOptions, Clock, HealthSample } from '@egpu/core'
import type { DeviceObservation, DriverSnapshot, EGpuDriver, HealthCapability, ProbeResult } from '@egpu/core/driver'
import { Gpus, unknownGpu } from './gpus.ts'
import type { HostCalls } from './host/protocol.ts'
import { SharedHost } from './host/shared-host.ts'
import { librariesOf } from './libraries.ts'
import type { LibraryOptions } from './libraries.ts'
import { nvmlError } from './nvml/failure.ts'
import { detailsOf, healthOf } from './nvml/health.ts'
import type { NvidiaDetails } from './nvml/health.ts'
import { Watcher } from './watcher.ts'

export interface CudaDriverOptions extends LibraryOptions {
  /** `/sys`, or a directory in its place. */
  readonly sysfsRoot?: string | undefined
  /** Also open GPUs that sleep. Wakes them. Off by default. */
  readonly wakeSuspended?: boolean | undefined
  /**
   * Hear of Xid errors as they happen while somebody watches. NVML stays open for it, which keeps some GPUs from
   * going to sleep by themselves. On by default.
   */
  readonly xidEvents?: boolean | undefined
  /** How often sysfs is looked at for GPUs that came or went. 1,000 by default. */
  readonly rescanMs?: number | undefined
  readonly clock?: Clock | undefined
}

export interface CudaDriver extends EGpuDriver {
  readonly health: HealthCapability
  /**
   * Everything NVML tells about a GPU: clocks, throttling, PCIe replays and throughput, ECC, retired memory, recovery
   * action. Takes 40 ms or more. Rejects like `health.sample`, and with `EGPU_NOT_SUPPORTED` for a GPU that sleeps.
   */
  details(key: string, options?: AbortOptions): Promise<NvidiaDetails>
  /**
   * Lets go of every device node, so that the GPU with this key can be taken off the bus, and takes none until the
   * returned function is called or the GPU is gone. Meanwhile the list stays as it was and samples are empty.
   */
  release(key: string): Promise<() => void>
}

const driver = 'cuda'

/**
 * The replay counter and the link's width keep the GPU's own processor, and with it the caller, busy for 0.8 ms (H200,
 * driver 580); a sample without them takes 0.2 ms.
 */
const linkEveryMs = 30_000

/** The NVIDIA driver: who the GPUs are and how they are, through NVML, without root, waking nothing. */
export function cudaDriver(options: CudaDriverOptions = {}): CudaDriver {
  const clock = options.clock ?? systemClock
  const xidEvents = options.xidEvents ?? true
  const closing = new AbortController()
  const host = new SharedHost(librariesOf(options), (event) => watcher.take(event))
  const gpus = new Gpus(host, {
    sysfsRoot: options.sysfsRoot ?? '/sys',
    wakeSuspended: options.wakeSuspended ?? false,
  })

  const look = async (
    signal: AbortSignal | undefined,
  ): Promise<{ devices: readonly DeviceObservation[]; signature: string }> => {
    if (closing.signal.aborted) throw closed()
    signal?.throwIfAborted()
    const seen = await abandonable(gpus.look({ signal }), closing.signal)
    return { devices: [...seen.gpus.values()].map(({ observation }) => frozen(observation)), signature: seen.signature }
  }

  const watcher = new Watcher({
    clock,
    rescanMs: checkedRescan(options.rescanMs ?? 1_000),
    signature: () => gpus.signature(),
    look: (signal) => look(signal),
    openEvents: async () => {
      if (!xidEvents) return () => undefined
      const letGo = host.keep()
      // Without events the watch still tells what comes and goes, and a sample still finds a death.
      await gpus.use((one) => one.call('nvml.watch', undefined)).catch(() => undefined)
      return letGo
    },
    uuidOf: (busId) => gpus.uuidOf(busId),
  })

  /** Asks NVML about one GPU; `undefined` when it may not be touched now. */
  const ask = async <K extends 'nvml.health' | 'nvml.details'>(
    call: K,
    key: string,
    more: Omit<HostCalls[K][0], 'busId'>,
    { signal }: AbortOptions,
  ): Promise<{ readonly raw: HostCalls[K][1] } | undefined> => {
    if (closing.signal.aborted) throw closed()
    signal?.throwIfAborted()
    let found = gpus.touchable(key)
    if (found === undefined) {
      await look(signal)
      found = gpus.touchable(key)
    }
    if (found === undefined) throw unknownGpu(key)
    if (found === 'asleep') return undefined
    const args = { ...more, busId: found.busId } as HostCalls[K][0]
    try {
      return { raw: await gpus.useFor(found, (one) => one.call(call, args, { signal })) }
    } catch (cause) {
      signal?.throwIfAborted()
      // Closing ends the host, and with it every call.
      if (closing.signal.aborted) throw closed()
      const error = nvmlError(cause, key)
      if (EGpuError.is(error, EGpuErrorCode.DeviceLost)) watcher.die(key, 'lost', error.message)
      // It may have gone while the question was under way.
      if (gpus.touchable(key) === undefined) throw unknownGpu(key)
      throw error
    }
  }

  /** When the link of each GPU was last read. */
  const linkReadAt = new Map<string, number>()

  let ending: Promise<void> | undefined
  const close = (): Promise<void> => {
    closing.abort(closed())
    watcher.close()
    return (ending ??= host.close())
  }

  return {
    specVersion: 1,
    name: driver,
    capabilities: {
      hotplug: true,
      verdict: false,
      health: true,
      safeRemoval: false,
      passthrough: false,
      // CUDA is somebody else's: this driver moves its processes and opens no target itself.
      runtimes: [],
    },
    probe: ({ signal } = {}) =>
      closing.signal.aborted
        ? Promise.resolve({ usable: false, reason: closed().message })
        : abandonable(probe(gpus, signal), signal),
    list: async ({ signal } = {}): Promise<DriverSnapshot> => {
      const { devices } = await look(signal)
      return {
        devices: devices.map((device) => watcher.stageOf(device)),
        enclosures: [],
        findings: [...watcher.findings],
      }
    },
    watch: ({ signal }) => watcher.watch(AbortSignal.any([signal ?? closing.signal, closing.signal])),
    health: {
      sample: async (key, sampleOptions = {}): Promise<HealthSample> => {
        const withLink = clock.now() - (linkReadAt.get(key) ?? Number.NEGATIVE_INFINITY) >= linkEveryMs
        const answer = await ask('nvml.health', key, { withLink }, sampleOptions)
        if (withLink && answer !== undefined) linkReadAt.set(key, clock.now())
        return answer === undefined ? { atMs: clock.now() } : healthOf(answer.raw, clock.now())
      },
    },
    details: async (key, detailsOptions = {}) => {
      const answer = await ask('nvml.details', key, {}, detailsOptions)
      if (answer !== undefined) return detailsOf(answer.raw, clock.now())
      throw new EGpuError(EGpuErrorCode.NotSupported, `GPU ${key} sleeps, and asking would wake it`, { driver })
    },
    release: async (key) => {
      const found = await look(undefined).then(({ devices }) => devices.find((device) => device.key === key))
      if (found === undefined) throw unknownGpu(key)
      return await gpus.release(found.identity.pciAddress)
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

async function probe(gpus: Gpus, signal: AbortSignal | undefined): Promise<ProbeResult> {
  if (process.platform !== 'linux') {
    return { usable: false, reason: `this is ${process.platform}; the driver uses NVML and sysfs as Linux has them` }
  }
  try {
    await gpus.use((one) => one.call('nvml.load', undefined, { signal }))
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause)
    return {
      usable: false,
      reason: `NVIDIA's library cannot be loaded (${text}); install NVIDIA's driver for this kernel`,
      cause,
    }
  }
  try {
    await gpus.look({ signal })
    return { usable: true }
  } catch (cause) {
    return { usable: false, reason: cause instanceof Error ? cause.message : String(cause), cause }
  }
}

function frozen(observation: DeviceObservation): DeviceObservation {
  return { ...observation, identity: Object.freeze(observation.identity), gpu: Object.freeze(observation.gpu) }
}

function checkedRescan(rescanMs: number): number {
  if (!Number.isFinite(rescanMs) || rescanMs < 1) throw new TypeError('rescanMs must be 1 or more')
  return rescanMs
}

function closed(): EGpuError {
  return new EGpuError(EGpuErrorCode.Closed, 'this cudaDriver is closed; make a new one', { driver })
}
