import { GpuDeviceState } from '../registry/states.ts'
import { RuntimeKind } from '../types/target.ts'
import { GpuVendor } from '../types/vendor.ts'
import type { HostTraits, RoutableDevice, RuntimeChoice } from './types.ts'

/** What a rule says of its runtime: what speaks for and against it, or why it cannot use the device at all. */
export type Ruling = Omit<RuntimeChoice, 'runtime'> | { readonly refused: string }

/** One rule for each runtime. All assume a device that is usable as such. */
export const rules: Readonly<Record<RuntimeKind, (device: RoutableDevice, host: HostTraits) => Ruling>> = {
  [RuntimeKind.Metal]: ruleMetal,
  [RuntimeKind.Cuda]: ruleCuda,
  [RuntimeKind.WebGpu]: ruleWebGpu,
  [RuntimeKind.Cpu]: () => ({ for: ['works on every machine'], against: ['leaves the GPU unused'] }),
  [RuntimeKind.Simulated]: () => ({ refused: 'it runs simulated devices only, through their own targets' }),
}

function ruleMetal(device: RoutableDevice, host: HostTraits): Ruling {
  if (host.platform !== undefined && host.platform !== 'darwin') return { refused: 'Metal exists on macOS only' }
  const refused = whyNoMetalDriver(device, host)
  if (refused !== undefined) return { refused }
  const against = isExternal(device)
    ? ["Apple's documentation ends removable Metal devices with macOS 27", ...doubts(device)]
    : doubts(device)
  return { for: ["the platform's own runtime"], against }
}

/** NVIDIA/cuda-checkpoint README: the driver's own calls came with 570, restoring onto another GPU with 580. */
function ruleCuda(device: RoutableDevice, host: HostTraits): Ruling {
  if (host.platform === 'browser') return { refused: 'a browser has no CUDA' }
  if (isMac(device, host)) return { refused: 'there is no CUDA for macOS' }
  const { vendor } = device.gpu
  if (vendor === undefined) return { refused: 'it needs an NVIDIA GPU, and who made this one is not known' }
  if (vendor !== GpuVendor.Nvidia) return { refused: 'it needs an NVIDIA GPU' }
  const { driver } = device
  if (driver !== undefined && !nvidiaDrivers.has(driver)) {
    return { refused: `it needs NVIDIA's own kernel driver, and ${driver} is bound` }
  }
  const unsure = driver === undefined ? ["whether NVIDIA's kernel driver is bound is not known"] : []
  return {
    for: [
      "the maker's own runtime",
      'on Linux its processes can be parked (driver 570 and later) and moved to an equal GPU (580 and later)',
    ],
    against: [...unsure, ...doubts(device)],
  }
}

function ruleWebGpu(device: RoutableDevice, host: HostTraits): Ruling {
  const refused = isMac(device, host) ? whyNoMetalDriver(device, host) : undefined
  if (refused !== undefined) return { refused: `on macOS it runs on Metal: ${refused}` }
  const unpinned = isExternal(device)
    ? ['WebGPU takes no device, only a power preference: check which adapter it gave']
    : []
  return { for: ["runs on any maker's GPU, in Node and in browsers"], against: [...unpinned, ...doubts(device)] }
}

/** The kernel driver's name on Linux and on Windows. */
const nvidiaDrivers: ReadonlySet<string> = new Set(['nvidia', 'nvlddmkm'])

/**
 * Apple never shipped a graphics driver for an external GPU on Apple silicon: Metal and the window server do not show
 * it, while a DriverKit extension such as TinyGPU (tinygrad, since March 2026) drives it for compute. On Intel Macs only
 * AMD cards work (Apple support document 102363).
 */
function whyNoMetalDriver(device: RoutableDevice, host: HostTraits): string | undefined {
  if (isBehindExtension(device, host)) return extensionReason(device)
  const { vendor } = device.gpu
  if (vendor === GpuVendor.Apple || device.verdict.conclusion === 'internal') return undefined
  if (host.architecture === undefined) {
    return 'on Apple silicon Metal does not show external GPUs, and which kind of Mac this is is not known'
  }
  if (vendor === undefined) return 'macOS has drivers for external GPUs by AMD only, and who made this one is not known'
  return vendor === GpuVendor.Amd ? undefined : 'macOS has drivers for external GPUs by AMD only'
}

/** Every GPU of an Apple silicon Mac that Apple did not build in. */
function isBehindExtension(device: RoutableDevice, host: HostTraits): boolean {
  if (device.appleSilicon !== undefined) return true
  if (host.platform !== 'darwin' || host.architecture !== 'arm64') return false
  if (device.gpu.vendor !== undefined) return device.gpu.vendor !== GpuVendor.Apple
  return device.verdict.conclusion !== 'internal'
}

function extensionReason({ appleSilicon }: RoutableDevice): string {
  const extension = appleSilicon?.drivenBy ?? 'such as TinyGPU'
  const waiting = appleSilicon?.approval === 'waiting' ? ', which waits to be allowed in System Settings' : ''
  return `Apple silicon lets an external GPU compute only, through a DriverKit extension (${extension}${waiting})`
}

function isMac(device: RoutableDevice, host: HostTraits): boolean {
  return host.platform === 'darwin' || device.appleSilicon !== undefined
}

function isExternal(device: RoutableDevice): boolean {
  return device.verdict.conclusion === 'external'
}

/** What speaks against the device itself, through whatever runtime. */
function doubts(device: RoutableDevice): string[] {
  return [
    ...(isExternal(device) ? ['the device can vanish with its cable'] : []),
    ...(device.state === GpuDeviceState.Degraded ? ['the device is degraded'] : []),
  ]
}
