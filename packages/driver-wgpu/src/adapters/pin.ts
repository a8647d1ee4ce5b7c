import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, DeviceIdentity } from '@egpu/core'
import { resolvePackage } from '../host.ts'
import { deviceOf, listVulkanDevices, sameUuid, testify } from './vulkan-devices.ts'
import type { VulkanDevice } from './vulkan-devices.ts'
import { pinnedVariable, targetId } from './observe.ts'

/** What makes a process open one GPU and no other. */
export interface Pin {
  /** What `runtime.open` takes in that process. */
  readonly targetId: string
  /** Variables for the process, on top of its own. They also tell the driver there which of several equal GPUs it has. */
  readonly environment: Readonly<Record<string, string>>
  /** A command, with arguments, to put before the process's own; mostly empty. */
  readonly launcher: readonly string[]
  /** The GPU that a process in this setting was seen to open. */
  readonly device: VulkanDevice
}

/** What is known of the wanted GPU: a UUID or a PCI address names it; anything less must fit only one. */
export type WantedGpu = Pick<DeviceIdentity, 'uuid' | 'pciAddress' | 'vendorId' | 'deviceId' | 'adapterName'>

export interface PinOptions extends AbortOptions {
  /** For `create()` of the package `webgpu`. */
  readonly flags: readonly string[]
  /** Variables that keep bad drivers out. */
  readonly environment: Readonly<Record<string, string>>
}

interface Setting {
  readonly environment: Readonly<Record<string, string>>
  readonly launcher: readonly string[]
}

/** Taken on trial from the device that was opened: enough to be told from what others take meanwhile. */
const witnessBytes = 128 * 2 ** 20

/**
 * Finds a setting in which a process opens the wanted GPU, also one of several equal ones, by trying: no selector is
 * believed, because they contradict each other (Mesa's `DRI_PRIME=pci-…` gives Dawn the *other* one of two). What was
 * really opened shows by whose memory it takes.
 *
 * Rejects with `EGPU_DEVICE_NOT_FOUND` when Vulkan does not show the GPU, with `EGPU_TARGET_INCOMPATIBLE` when no setting
 * opens it, and `EGPU_NATIVE_UNAVAILABLE` when Vulkan cannot be asked. True until the next plug or unplug.
 */
export async function pinGpu(wanted: WantedGpu, { flags, environment, signal }: PinOptions): Promise<Pin> {
  const webgpu = resolvePackage('webgpu')
  if (webgpu === undefined) {
    throw new EGpuError(EGpuErrorCode.NativeUnavailable, 'the package webgpu is not installed: npm install webgpu', {
      driver: 'wgpu',
    })
  }
  const devices = await listVulkanDevices({ environment, signal })
  const device = find(wanted, devices)
  const dawn = [...flags, 'backend=vulkan', `adapter=${device.name}`]
  const tried: string[] = []
  for (const trial of settingsFor(device, devices)) {
    const setting = { ...trial, environment: { ...environment, ...trial.environment } }
    const outcome = await testify(webgpu, dawn, witnessBytes, { ...setting, signal }).then(
      (testimony) => deviceOf(testimony, witnessBytes),
      (error: unknown) => {
        signal?.throwIfAborted()
        if (EGpuError.is(error)) return error
        throw error
      },
    )
    if (!EGpuError.is(outcome) && outcome?.uuid === device.uuid) {
      const told = { ...setting.environment, [pinnedVariable]: device.uuid }
      return { ...setting, environment: told, device, targetId: targetId(`vulkan:${device.name}`) }
    }
    tried.push(`${describe(trial)}: ${describeOutcome(outcome)}`)
  }
  throw new EGpuError(
    EGpuErrorCode.TargetIncompatible,
    `no setting was found that opens ${device.name} at ${device.pciAddress ?? device.uuid}; tried ${tried.join('; ')}`,
    { driver: 'wgpu' },
  )
}

function find(wanted: WantedGpu, devices: readonly VulkanDevice[]): VulkanDevice {
  const fits = devices.filter(
    (device) =>
      (wanted.uuid === undefined || sameUuid(wanted.uuid, device.uuid)) &&
      (wanted.pciAddress === undefined || wanted.pciAddress.toLowerCase() === device.pciAddress) &&
      (wanted.vendorId === undefined || wanted.vendorId === device.vendorId) &&
      (wanted.deviceId === undefined || wanted.deviceId === device.deviceId) &&
      (wanted.adapterName === undefined || wanted.adapterName === device.name),
  )
  const [only, ...others] = fits
  if (only !== undefined && others.length === 0) return only
  const shown = devices.map(({ name, pciAddress, uuid }) => `${name} at ${pciAddress ?? uuid}`).join(', ')
  const problem = only === undefined ? 'Vulkan shows no such GPU' : 'several GPUs fit'
  throw new EGpuError(EGpuErrorCode.DeviceNotFound, `${problem}; there are: ${shown || 'none'}`, { driver: 'wgpu' })
}

/** Settings to try, the least intrusive first. */
function settingsFor(wanted: VulkanDevice, devices: readonly VulkanDevice[]): readonly Setting[] {
  const twins = devices.filter(({ name }) => name === wanted.name)
  const plain: Setting = { environment: {}, launcher: [] }
  if (twins.length === 1) return [plain]
  const select = (environment: Readonly<Record<string, string>>): Setting => ({ environment, launcher: [] })
  const hex = (id: number): string => id.toString(16).padStart(4, '0')
  const addresses = twins.flatMap(({ pciAddress }) => pciAddress ?? [])
  return [
    plain,
    // Mesa's device-select layer, which works above any driver.
    select({ MESA_VK_DEVICE_SELECT: `${hex(wanted.vendorId)}:${hex(wanted.deviceId)}!` }),
    ...addresses.map((address) => select({ DRI_PRIME: `pci-${address.replaceAll(/[:.]/g, '_')}` })),
    { environment: {}, launcher: hide(addresses.filter((address) => address !== wanted.pciAddress)) },
  ]
}

/** In a mount namespace of its own, which needs no root, a process does not see the other GPUs' device nodes. */
function hide(addresses: readonly string[]): readonly string[] {
  const script = `for gpu in $1; do
    minor=$(sed -n 's/^Device Minor:[[:space:]]*//p' "/proc/driver/nvidia/gpus/$gpu/information" 2>/dev/null)
    for node in \${minor:+/dev/nvidia$minor} $(ls "/sys/bus/pci/devices/$gpu/drm" 2>/dev/null | sed 's|^|/dev/dri/|'); do
      if [ -e "$node" ]; then mount --bind /dev/null "$node" || exit 1; fi
    done
  done
  shift
  exec "$@"`
  return ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', script, 'sh', addresses.join(' ')]
}

function describe({ environment, launcher }: Setting): string {
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`)
  return [...variables, ...launcher.slice(0, 1)].join(' ') || 'nothing'
}

function describeOutcome(outcome: VulkanDevice | EGpuError | undefined): string {
  if (outcome === undefined) return 'which GPU it opened could not be told'
  return EGpuError.is(outcome) ? outcome.message : `it opened the one at ${outcome.pciAddress ?? outcome.uuid}`
}
