import { Transport, vendorOfPciId } from '@egpu/core'
import type { AppleSiliconEGpuInfo, Evidence, GpuDescription, Verdict } from '@egpu/core'
import type { DeviceObservation } from '@egpu/core/driver'
import { above, below, pathOf } from '../registry/picture.ts'
import type { RegistryNode } from '../registry/picture.ts'
import { asBoolean, asNumber, asText } from '../registry/value.ts'
import { driverName, driverStateOf, isUsable } from './driver-state.ts'
import type { DriverState } from './driver-state.ts'
import { extensionFor } from './extensions.ts'
import type { ListedExtension } from './extensions.ts'
import type { Host } from './host.ts'
import { describeLink } from './link.ts'
import type { Join } from './join.ts'
import { isTunnelled, pciClassOf, pciId } from './pci.ts'
import { enclosureIdOf, receptacleOf, usb4Version } from './router.ts'

/** A GPU with everything that was concluded about it. */
export interface DetectedGpu {
  readonly node: RegistryNode
  readonly external: boolean
  readonly join: Join | undefined
  readonly state: DriverState
  readonly observation: DeviceObservation
}

export interface GpuContext {
  readonly host: Host
  readonly extensions: readonly ListedExtension[]
  readonly join: Join | undefined
  /** Which of the GPUs in its enclosure, from 0. */
  readonly slot: number | undefined
  readonly key: string
}

/** A PCI function of class 0x03. */
export function describeGpu(node: RegistryNode, context: GpuContext): DetectedGpu {
  const { host, join, key, slot } = context
  const external = isTunnelled(node)
  const state = driverStateOf(node)
  const link = describeLink(node, join?.router)
  const gpu = describeHardware(node)
  const observation: DeviceObservation = {
    key,
    identity: {
      pciAddress: pciAddressOf(node, host),
      registryEntryId: node.id.toString(),
      vendorId: gpu.vendorId,
      deviceId: gpu.deviceId,
      subsystemVendorId: gpu.subsystemVendorId,
      subsystemDeviceId: gpu.subsystemDeviceId,
      enclosureUid: join?.router.uid,
      enclosureSlot: join?.router.uid === undefined ? undefined : slot,
    },
    gpu,
    stage: isDead(node) ? 'wedged' : isUsable(state) ? 'ready' : 'present',
    verdict: external ? externalVerdict(node, join) : internalVerdict(node),
    enclosureId: join === undefined ? undefined : enclosureIdOf(join.router),
    thunderboltPort: join === undefined ? undefined : receptacleOf(join.router),
    thunderboltSpeed: link.sticker,
    link,
    hasDisplays: displaysOf(node),
    kernelDriver: driverName(state),
    appleSilicon: external && host.processor === 'apple' ? appleSiliconInfo(state, context.extensions) : undefined,
  }
  return { node, external, join, state, observation }
}

/** The GPU of an Apple chip: it has no PCI device above it, so it cannot be anything but internal. */
export function describeAppleGpu(node: RegistryNode, key: string): DetectedGpu {
  const state: DriverState = {
    kind: 'metal',
    name: asText(node.properties.get('CFBundleIdentifier')) ?? node.className,
  }
  const evidence: Evidence[] = [
    { signal: 'no-pci-parent', value: true, weight: 1, points: 'internal', source: pathOf(node) },
  ]
  const name = asText(node.properties.get('model'))
  const observation: DeviceObservation = {
    key,
    identity: { registryEntryId: node.id.toString(), adapterName: name },
    gpu: { name, vendor: 'apple' },
    stage: 'ready',
    verdict: { conclusion: 'internal', confidence: 1, evidence },
    kernelDriver: driverName(state),
  }
  return { node, external: false, join: undefined, state, observation }
}

function describeHardware(node: RegistryNode): GpuDescription {
  const vendorId = pciId(node, 'vendor-id')
  const megabytes = asNumber(node.properties.get('VRAM,totalMB'))
  return {
    name: asText(node.properties.get('model')),
    vendor: vendorOfPciId(vendorId),
    vendorId,
    deviceId: pciId(node, 'device-id'),
    subsystemVendorId: pciId(node, 'subsystem-vendor-id'),
    subsystemDeviceId: pciId(node, 'subsystem-id'),
    pciClass: pciClassOf(node),
    memoryBytes: megabytes === undefined || megabytes <= 0 ? undefined : megabytes * 2 ** 20,
  }
}

/** `b:d:f` of the one PCI segment an Intel Mac has; every port of Apple silicon is a segment of its own, unnumbered. */
function pciAddressOf(node: RegistryNode, host: Host): string | undefined {
  if (host.processor !== 'intel') return undefined
  const match = /^(\d{1,3}):(\d{1,2}):(\d)/.exec(asText(node.properties.get('pcidebug')) ?? '')
  if (match === null) return undefined
  const [bus, device] = [Number(match[1]), Number(match[2])].map((part) => part.toString(16).padStart(2, '0'))
  return `0000:${bus}:${device}.${match[3]}`
}

/** The kernel found it dead when it restored its state after sleep. */
function isDead(node: RegistryNode): boolean {
  return asBoolean(node.properties.get('IOPCIDeviceDeadOnRestore')) === true
}

function externalVerdict(node: RegistryNode, join: Join | undefined): Verdict {
  const marked = [node, ...above(node)].find((one) => asBoolean(one.properties.get('IOPCITunnelled')) === true)
  const evidence: Evidence[] = [
    { signal: 'pci-tunnelled', value: true, weight: 1, points: 'external', source: pathOf(marked ?? node) },
  ]
  if (join !== undefined) {
    const value = enclosureIdOf(join.router)
    evidence.push({ signal: join.by, value, weight: 0.5, points: 'external', source: pathOf(join.router.node) })
  }
  return {
    conclusion: 'external',
    confidence: 1,
    transport: transportOf(join),
    evidence: [...evidence, ...slotName(node, 'external')],
  }
}

/** Which protocol its router speaks; a tunnel whose router is not known may be either. */
function transportOf(join: Join | undefined): Transport {
  if (join === undefined) return Transport.Unknown
  const version = usb4Version(join.router.node)
  if (version !== undefined) return version >= 1 ? Transport.Usb4 : Transport.Thunderbolt
  return /Type[123]$/.test(join.router.node.className) ? Transport.Thunderbolt : Transport.Unknown
}

/**
 * No tunnel. That it is internal is certain only for a card in a numbered slot: a cable that carries plain PCI Express
 * (an M.2 adapter, ExpressCard) leaves no mark.
 */
function internalVerdict(node: RegistryNode): Verdict {
  const untunnelled: Evidence = {
    signal: 'pci-tunnelled',
    value: undefined,
    weight: 0.7,
    points: 'internal',
    source: pathOf(node),
  }
  const hotPlug = [...above(node)].find((one) => asBoolean(one.properties.get('IOPCIHotPlug')) === true)
  if (hotPlug !== undefined) {
    const evidence: Evidence = {
      signal: 'pci-hot-plug',
      value: true,
      weight: 0.7,
      points: 'external',
      source: pathOf(hotPlug),
    }
    return { conclusion: 'unknown', confidence: 0, evidence: [untunnelled, evidence] }
  }
  const slot = slotName(node, 'internal')
  return { conclusion: 'internal', confidence: slot.length > 0 ? 0.95 : 0.7, evidence: [untunnelled, ...slot] }
}

/** `Slot-1` in a Mac Pro, `Thunderbolt@5,0,0` behind a cable: agrees with a verdict, never makes one. */
function slotName(node: RegistryNode, points: 'external' | 'internal'): Evidence[] {
  const value = asText(node.properties.get('AAPL,slot-name'))
  const agrees =
    points === 'external' ? value?.startsWith('Thunderbolt@') : value !== undefined && /^Slot-?\d/.test(value)
  return agrees === true ? [{ signal: 'slot-name', value, weight: 0.3, points, source: pathOf(node) }] : []
}

/** Unknown without a driver that has framebuffers: a monitor may hang on a GPU that nobody drives. */
function displaysOf(node: RegistryNode): boolean | undefined {
  const framebuffers = [...below(node)].filter((one) => one.roles.has('framebuffer'))
  if (framebuffers.length === 0) return undefined
  return framebuffers.some((framebuffer) => [...below(framebuffer)].some((one) => one.roles.has('display')))
}

/**
 * DART, the IOMMU of Apple silicon, maps about 1.5 GB for a device at once (lemonade-sdk/mac-amdgpu,
 * docs/AS_DART_LIMITS.md).
 */
const dartBytes = 1.5 * 2 ** 30

function appleSiliconInfo(state: DriverState, extensions: readonly ListedExtension[]): AppleSiliconEGpuInfo {
  const drivenBy = state.kind === 'dext' ? state.bundleId : undefined
  const listed = extensions.find(({ bundleId }) =>
    drivenBy === undefined ? extensionFor(bundleId) !== undefined : bundleId === drivenBy,
  )
  // One that drives the device runs, so somebody has approved it.
  const approval = drivenBy === undefined ? listed?.approval : (listed?.approval ?? 'approved')
  return { enumerates: true, drivenBy, approval, computeOnly: true, mappableBytes: dartBytes }
}
