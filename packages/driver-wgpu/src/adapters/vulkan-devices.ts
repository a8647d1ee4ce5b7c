import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, DeviceIdentity } from '@egpu/core'
import { runNative } from '../host.ts'
import type { ChildOptions, ChildResult } from '../host.ts'

/** A GPU as Vulkan knows it: with the PCI address and the UUID, which WebGPU keeps to itself. */
export interface VulkanDevice {
  /** The same name that Dawn gives its adapter. */
  readonly name: string
  readonly vendorId: number
  readonly deviceId: number
  readonly type: 'integrated' | 'discrete' | 'virtual' | 'cpu' | 'other'
  /** `deviceUUID`, the one that NVML and CUDA have too; Mesa makes its own from the PCI address. */
  readonly uuid: string
  readonly pciAddress?: string | undefined
  /** Of its own memory. */
  readonly memoryBytes: number
  /** What this process could still take of it, and has taken; from `VK_EXT_memory_budget`. */
  readonly budgetBytes?: number | undefined
  readonly usedBytes?: number | undefined
}

/** A cold driver takes about a second; one that waits for a dead GPU never answers. */
export const lookTimeoutMs = 20_000

type Setting = Pick<ChildOptions, 'environment' | 'launcher'>

/**
 * Every device that Vulkan shows to a process in this setting, in its order. Rejects with `EGPU_NATIVE_UNAVAILABLE` when
 * nobody could tell: no koffi, no Vulkan loader, a driver that crashed or hung the process that asked.
 */
export async function listVulkanDevices(options: AbortOptions & Setting = {}): Promise<readonly VulkanDevice[]> {
  const { signal } = options
  signal?.throwIfAborted()
  const result = await runNative('list-devices.js', [], { ...options, signal, timeoutMs: lookTimeoutMs })
  signal?.throwIfAborted()
  return parse(result, 'looking at Vulkan devices') as readonly VulkanDevice[]
}

/** What was seen by a process that gave memory to the one device it opened. */
export interface Testimony {
  readonly before: readonly VulkanDevice[]
  readonly after: readonly VulkanDevice[]
}

/** Opens a device through Dawn in a process of its own, and has it take `bytes` of memory. Rejects like the above. */
export async function testify(
  webgpu: string,
  flags: readonly string[],
  bytes: number,
  options: AbortOptions & Setting,
): Promise<Testimony> {
  const { signal } = options
  const args = [webgpu, JSON.stringify(flags), String(bytes)]
  const result = await runNative('witness.js', args, { ...options, signal, timeoutMs: lookTimeoutMs })
  signal?.throwIfAborted()
  return parse(result, 'opening a device on trial') as Testimony
}

function parse(result: ChildResult | undefined, what: string): unknown {
  // Drivers may crash on the way out, when all was said.
  if (result !== undefined && result.stdout !== '') return JSON.parse(result.stdout)
  const how =
    result === undefined
      ? 'no process can be started here'
      : `${result.signal ?? `exit status ${result.status}`}: ${lastWords(result.stderr)}`
  throw new EGpuError(EGpuErrorCode.NativeUnavailable, `${what} failed (${how})`, { driver: 'wgpu' })
}

function lastWords(log: string): string {
  const said = log.split('\n').filter((line) => line.trim() !== '')
  return (said.find((line) => line.startsWith('Error')) ?? said.at(-1) ?? 'no reason given').trim()
}

/** The device whose memory the witness took; `undefined` when that cannot be told. */
export function deviceOf({ before, after }: Testimony, bytes: number): VulkanDevice | undefined {
  const [only, ...others] = after
  if (others.length === 0) return only
  const grown = after.filter((device) => {
    const then = before.find(({ uuid }) => uuid === device.uuid)
    if (then?.usedBytes === undefined || device.usedBytes === undefined) return false
    if (device.usedBytes - then.usedBytes >= bytes / 2) return true
    // Some drivers count only what they were asked about through this very instance.
    return (then.budgetBytes ?? 0) - (device.budgetBytes ?? 0) >= bytes / 2
  })
  return grown.length === 1 ? grown[0] : undefined
}

/** NVML writes `GPU-…` with dashes, Vulkan has the bytes alone. */
export function sameUuid(one: string, other: string): boolean {
  const plain = (uuid: string): string => uuid.replace(/^GPU-/i, '').replaceAll('-', '').toLowerCase()
  return plain(one) === plain(other)
}

/** What tells the device from others, as core wants to hear it. */
export function identityOf(device: VulkanDevice): DeviceIdentity {
  const { name, vendorId, deviceId, uuid, pciAddress } = device
  return { adapterName: name, vendorId, deviceId, uuid, pciAddress }
}
