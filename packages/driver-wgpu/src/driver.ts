import { abandonable, EGpuError, EGpuErrorCode, RuntimeKind } from '@egpu/core'
import type { AbortOptions, EGpuDevice, OpenTarget } from '@egpu/core'
import { EventQueue } from '@egpu/core/driver'
import type { DriverEvent, DriverSnapshot, EGpuDriver, RuntimeCapability } from '@egpu/core/driver'
import type { AdapterSeen } from './adapters/adapter-seen.ts'
import { chooseSource } from './adapters/choose-source.ts'
import { matchAdapter } from './adapters/match.ts'
import type { TargetMatch } from './adapters/match.ts'
import { isPinHeld, observeAdapters, pinnedVariable, possibleDevices, targetId, targetOf } from './adapters/observe.ts'
import type { Known } from './adapters/observe.ts'
import type { Pin, WantedGpu } from './adapters/pin.ts'
import type { AdapterSource } from './adapters/source.ts'
import { everything, openTarget } from './device/open-target.ts'
import type { DescribeDevice } from './device/open-target.ts'
import type { HeartbeatOptions } from './device/heartbeat.ts'
import { warmUp } from './device/warm-up.ts'
import { retireLostDevices } from './device/held-devices.ts'
import { environmentVariable } from './host.ts'

export interface WgpuDriverOptions {
  /** Where adapters come from. Default: `navigator.gpu` where there is one, else the optional peer `webgpu`. */
  readonly gpu?: GPU | undefined
  /** How devices are asked whether they still live. */
  readonly heartbeat?: HeartbeatOptions | undefined
  /** What an opened device can do. Default: everything its adapter can. */
  readonly describeDevice?: DescribeDevice | undefined
  /** Flags for `create()` of the package `webgpu`: `enable-dawn-features=…`, for one. Unused with any other `gpu`. */
  readonly dawnFlags?: readonly string[] | undefined
  /**
   * Whether the SwiftShader of an installed browser serves as the last adapter, on the CPU, where Vulkan shows none of its
   * own. Default true; not when `VK_DRIVER_FILES` names the drivers.
   */
  readonly cpuFallback?: boolean | undefined
  /** How long a graphics driver may take to load before it counts as hung, in milliseconds. Default 20 s. */
  readonly driverTimeoutMs?: number | undefined
}

/** WebGPU as an `EGpuDriver`: its targets open as a `GPUDevice`. */
export interface WgpuDriver extends EGpuDriver {
  readonly runtime: WgpuRuntime
  /**
   * How to start a process that opens this very GPU, also where there are several equal ones: give it the environment,
   * and a `wgpuDriver()` in it opens `targetId`. It was tried before it is given, by whose memory such a process took.
   * Vulkan only, so Linux mostly. Rejects with `EGPU_DEVICE_NOT_FOUND` when Vulkan does not show the GPU,
   * `EGPU_TARGET_INCOMPATIBLE` with all that was tried when nothing opens it, `EGPU_NATIVE_UNAVAILABLE` when Vulkan cannot be
   * asked. It holds until the next plug or unplug.
   */
  pin(wanted: WantedGpu, options?: AbortOptions): Promise<Pin>
  /**
   * Which of these devices (`manager.devices`) each target is, with how sure that is and why. Of identical GPUs a target
   * is `ambiguous`, unless this process was started as a `pin` said.
   */
  match(devices: readonly EGpuDevice[], options?: AbortOptions): Promise<readonly TargetMatch[]>
}

export interface WgpuRuntime extends RuntimeCapability {
  open(id: string, options?: AbortOptions): Promise<OpenTarget<GPUDevice>>
  /**
   * Opens a target ahead of time: the next `open` of it hands that device out at once, if it still lives. For the GPU
   * that is to take over when another one goes. It takes memory there, and is closed with the driver. Asking twice is
   * fine. Rejects like `open`, or with what `prepare` rejects with; there is no such device then.
   */
  standBy(id: string, options?: StandByOptions): Promise<void>
}

export interface StandByOptions extends AbortOptions {
  /**
   * Makes on the device what is slow to make, while there is time: compiling pipelines takes most of a take-over.
   * Called when a device was opened, and awaited. What it makes is the application's to keep, by the `handle` that
   * `open` gives later. A device that is asked for before it is prepared is handed out as it is.
   */
  readonly prepare?: ((open: OpenTarget<GPUDevice>) => unknown) | undefined
}

/**
 * Drives GPUs through WebGPU, in Node (with the optional peer `webgpu`) and in browsers. Lists adapters as GPUs, opens
 * devices on them and hears of their loss, also of idle ones. Adapters that run on the CPU, such as SwiftShader, are
 * targets of kind `cpu` and no devices.
 *
 * Looking for adapters asks the graphics drivers, and some of them wake a sleeping GPU to answer. So `watch` looks once
 * and never polls, and nothing looks unless it is asked to.
 */
export function wgpuDriver(options: WgpuDriverOptions = {}): WgpuDriver {
  const source = (): AdapterSource => (chosen ??= chooseSource(options))
  let chosen: AdapterSource | undefined
  let lastLook: readonly AdapterSeen[] = []
  let isPinned = false
  /** Fires on close, with the error that calls under way and later ones get. */
  const closing = new AbortController()
  const watches = new Set<EventQueue<DriverEvent>>()
  const open = new Set<OpenTarget<GPUDevice>>()
  const epochs = new Map<string, number>()
  /** Devices that are open ahead of time, by target. */
  const waiting = new Map<string, OpenTarget<GPUDevice>>()
  const pinnedUuid = environmentVariable(pinnedVariable)

  const look = async (abort: AbortOptions): Promise<readonly AdapterSeen[]> => {
    closing.signal.throwIfAborted()
    const seen = await source().look(orClosing(abort))
    isPinned = pinnedUuid !== undefined && isPinHeld(await knownOf(seen, abort))
    lastLook = seen
    return seen
  }

  const orClosing = ({ signal }: AbortOptions): Required<AbortOptions> => {
    const both = signal === undefined ? closing.signal : AbortSignal.any([closing.signal, signal])
    both.throwIfAborted()
    return { signal: both }
  }

  const knownOf = async (seen: readonly AdapterSeen[], abort: AbortOptions): Promise<Known> => ({
    devices: seen.some(({ software }) => !software) ? await source().identify(orClosing(abort)) : [],
    pinnedUuid,
  })

  const list = async (abort: AbortOptions = {}): Promise<DriverSnapshot> => {
    const seen = await look(abort)
    const devices = observeAdapters(seen, await knownOf(seen, abort))
    return { devices, enclosures: [], findings: await source().findings(orClosing(abort)) }
  }

  const openNow = async (id: string, abort: AbortOptions): Promise<OpenTarget<GPUDevice>> => {
    const find = (adapters: readonly AdapterSeen[]): AdapterSeen | undefined =>
      adapters.find(({ key }) => targetId(key) === id)
    closing.signal.throwIfAborted()
    const seen = find(lastLook) ?? find(await look(abort))
    const target = seen === undefined ? undefined : targetOf(seen, lastLook, isPinned)
    if (seen === undefined || target === undefined) {
      const known = lastLook.map(({ key }) => targetId(key)).join(', ')
      throw new EGpuError(EGpuErrorCode.DeviceNotFound, `no target ${id}; there are: ${known || 'none'}`, {
        driver: 'wgpu',
        deviceId: id,
      })
    }
    const epoch = epochs.get(id) ?? 1
    const opened = await openTarget(seen, target, {
      epoch,
      signal: orClosing(abort).signal,
      heartbeat: options.heartbeat ?? {},
      describeDevice: options.describeDevice ?? everything,
    }).catch((error: unknown) => {
      lastLook = []
      throw error
    })
    open.add(opened)
    void opened.lost.then(({ reason }) => {
      open.delete(opened)
      if (waiting.get(id) === opened) waiting.delete(id)
      if (reason === 'destroyed') return
      lastLook = []
      epochs.set(id, Math.max(epochs.get(id) ?? 1, epoch + 1))
    })
    return opened
  }

  const runtime: WgpuRuntime = {
    async targets(abort = {}) {
      const seen = await look(abort)
      return seen.map((one) => targetOf(one, seen, isPinned)).filter((target) => target !== undefined)
    },

    async open(id, abort = {}) {
      closing.signal.throwIfAborted()
      abort.signal?.throwIfAborted()
      const ready = waiting.get(id)
      if (ready === undefined) return await openNow(id, abort)
      waiting.delete(id)
      // It may have been asked for while there was another device there, which was lost since.
      return { ...ready, epoch: epochs.get(id) ?? ready.epoch }
    },

    async standBy(id, { prepare, ...abort } = {}) {
      if (waiting.has(id)) return
      const ready = await openNow(id, abort)
      if (waiting.has(id)) {
        await ready.close()
        return
      }
      waiting.set(id, ready)
      const preparing = warmUp(ready.handle).then(() => prepare?.(ready))
      try {
        await abandonable(preparing, orClosing(abort).signal)
      } catch (error) {
        // Whoever opened it meanwhile keeps it.
        if (waiting.get(id) === ready) {
          waiting.delete(id)
          await ready.close()
        }
        throw error
      }
    },
  }

  const close = async (): Promise<void> => {
    closing.abort(new EGpuError(EGpuErrorCode.Closed, 'the wgpu driver was closed', { driver: 'wgpu' }))
    for (const watch of watches) watch.end()
    await Promise.all([...open].map((target) => target.close()))
    await retireLostDevices()
  }

  return {
    specVersion: 1,
    name: 'wgpu',
    capabilities: {
      hotplug: false,
      verdict: false,
      health: false,
      safeRemoval: false,
      passthrough: false,
      runtimes: [RuntimeKind.WebGpu],
    },
    async probe(abort = {}) {
      abort.signal?.throwIfAborted()
      if (closing.signal.aborted) return { usable: false, reason: 'the driver was closed' }
      const reason = await source().refusal(orClosing(abort))
      return reason === undefined ? { usable: true } : { usable: false, reason }
    },
    list,
    async pin(wanted, abort = {}) {
      return await source().pin(wanted, orClosing(abort))
    },
    async match(devices, abort = {}) {
      const seen = await look(abort)
      const known = await knownOf(seen, abort)
      return seen
        .filter(({ request }) => request !== undefined)
        .map((one) => matchAdapter(one, possibleDevices(one, seen, known), devices))
    },
    watch({ signal }) {
      const queue = new EventQueue<DriverEvent>({ signal, onEnd: () => void watches.delete(queue) })
      if (closing.signal.aborted) queue.end()
      if (closing.signal.aborted || signal?.aborted === true) return queue
      watches.add(queue)
      list({ signal }).then(
        (snapshot) => queue.push({ type: 'resync', reason: 'started', snapshot }),
        (error: unknown) => queue.fail(error),
      )
      return queue
    },
    runtime,
    close,
    [Symbol.asyncDispose]: close,
  }
}
