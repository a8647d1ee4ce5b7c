import { RuntimeKind } from '../types/target.ts'
import { rules } from './rules.ts'
import type { BackendRoute, HostTraits, RoutableDevice, RuntimeChoice, RuntimeRefusal } from './types.ts'
import { whyUnusable } from './unusable.ts'

/** Best first. */
const preference: readonly RuntimeKind[] = [
  RuntimeKind.Metal,
  RuntimeKind.Cuda,
  RuntimeKind.WebGpu,
  RuntimeKind.Cpu,
  RuntimeKind.Simulated,
]

/**
 * Which of the installed runtimes can use a device, best first, each with its reasons: the maker's own before WebGPU,
 * the CPU last. A device that is lost, wedged, leaving, being emptied, asleep, without a driver or held for a virtual
 * machine is routed to none, not even the CPU, and `reason` says why. On Apple silicon no runtime here reaches an
 * external GPU, which computes through a DriverKit extension only: what is left is the CPU. Opens and wakes nothing.
 * Throws `TypeError` for something that is not a runtime.
 */
export function routeBackend(
  device: RoutableDevice,
  installedRuntimes: Iterable<RuntimeKind>,
  host: HostTraits = {},
): BackendRoute {
  const installed = new Set(installedRuntimes)
  for (const runtime of installed) {
    if (!preference.includes(runtime)) throw new TypeError(`${runtime} is not a runtime`)
  }
  const unusable = whyUnusable(device)
  if (unusable !== undefined) return { routed: false, reason: unusable, refusals: [] }
  const choices: RuntimeChoice[] = []
  const refusals: RuntimeRefusal[] = []
  for (const runtime of preference.filter((one) => installed.has(one))) {
    const ruling = rules[runtime](device, host)
    if ('refused' in ruling) refusals.push({ runtime, reason: ruling.refused })
    else choices.push({ runtime, ...ruling })
  }
  if (choices.length > 0) return { routed: true, choices, refusals }
  const reason = refusals.map((refusal) => `${refusal.runtime}: ${refusal.reason}`).join('; ')
  return { routed: false, reason: reason === '' ? 'no runtime is installed' : reason, refusals }
}
