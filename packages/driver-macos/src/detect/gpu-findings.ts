import type { Finding } from '@egpu/core'
import { pathOf } from '../registry/picture.ts'
import type { RegistryNode } from '../registry/picture.ts'
import { asArray, asBoolean } from '../registry/value.ts'
import { extensionFor } from './extensions.ts'
import type { ListedExtension } from './extensions.ts'
import type { Facts } from './findings.ts'
import type { DetectedGpu } from './gpu.ts'

/** What keeps an external GPU that is on the bus from being used. */
export function findGpuFindings({ gpus, host, extensions }: Facts): readonly Finding[] {
  const external = gpus.filter((gpu) => gpu.external)
  return external.flatMap((gpu) => [
    ...(barsAssigned(gpu.node) === false ? [barsUnassigned(gpu)] : []),
    ...(gpu.state.kind === 'undriven' ? [undriven(gpu, host.processor, extensions)] : []),
    ...(host.processor === 'intel' && gpu.state.kind !== 'metal' ? [intelPanic(gpu)] : []),
  ])
}

/**
 * Whether the kernel gave it memory ranges. A nub that went through resource assignment (`IOPCIResourced`) and has
 * none got none; one that has not says nothing.
 */
function barsAssigned(node: RegistryNode): boolean | undefined {
  const ranges = asArray(node.properties.get('IODeviceMemory'))
  const addresses = node.properties.get('assigned-addresses')
  if ((ranges?.length ?? 0) > 0 || (addresses instanceof Uint8Array && addresses.length > 0)) return true
  return asBoolean(node.properties.get('IOPCIResourced')) === true ? false : undefined
}

function barsUnassigned(gpu: DetectedGpu): Finding {
  return {
    ...about(gpu),
    code: 'bars-unassigned',
    severity: 'error',
    seen: `${labelOf(gpu)} got no memory ranges, so no driver can talk to it`,
    advice:
      'plug the enclosure in before the Mac starts, into another port, and without other PCI devices on the same cable',
    evidence: [{ source: `${pathOf(gpu.node)} IODeviceMemory`, value: undefined }],
  }
}

/** Why nobody drives it, and what a person can do: the extension waits, does not want this card, or is not there. */
function undriven(
  gpu: DetectedGpu,
  processor: 'apple' | 'intel' | undefined,
  extensions: readonly ListedExtension[],
): Finding {
  const evidence = [{ source: pathOf(gpu.node), value: 'no driver below it' }]
  const base = { ...about(gpu), severity: 'warning', evidence } as const
  for (const { bundleId, approval } of extensions) {
    const extension = extensionFor(bundleId)
    if (extension === undefined) continue
    const { vendorId, pciClass } = gpu.observation.gpu
    if (vendorId === undefined || !extension.vendorIds.includes(vendorId)) continue
    if (approval === 'waiting') {
      return {
        ...base,
        code: 'extension-waiting',
        seen: `${extension.name} is installed and waits for somebody to allow it`,
        advice: 'allow it in System Settings, General, Login Items & Extensions, Driver Extensions',
      }
    }
    if (pciClass !== undefined && pciClass !== extension.pciClass) return classMismatch(gpu, extension.name)
  }
  const isController = gpu.observation.gpu.pciClass !== 0x030000 && gpu.observation.gpu.pciClass !== undefined
  if (processor === 'apple' && isController) return classMismatch(gpu, 'TinyGPU')
  return {
    ...base,
    code: 'gpu-undriven',
    seen: `${labelOf(gpu)} is on the bus, but macOS has no driver for it`,
    advice:
      processor === 'apple'
        ? 'Apple silicon has no graphics driver for external GPUs; for computing, TinyGPU drives NVIDIA Ampere or newer and AMD RDNA 3 or newer'
        : 'use a card that this version of macOS has a driver for',
  }
}

function classMismatch(gpu: DetectedGpu, extension: string): Finding {
  return {
    ...about(gpu),
    code: 'extension-class-mismatch',
    severity: 'warning',
    seen: `${labelOf(gpu)} has PCI class ${hexClass(gpu)}, and ${extension} takes class 030000 alone`,
    advice: 'no driver extension for this kind of card exists yet; see tinygrad/tinygrad issue 16476',
    evidence: [{ source: `${pathOf(gpu.node)} class-code`, value: hexClass(gpu) }],
  }
}

/** tinygrad/tinygrad issues 16097 and 16534. */
function intelPanic(gpu: DetectedGpu): Finding {
  return {
    ...about(gpu),
    code: 'intel-panic-risk',
    severity: 'warning',
    seen: `${labelOf(gpu)} hangs on an Intel Mac; with a driver extension on it, kernel panics have been reported there`,
    advice: 'do not load TinyGPU on this Mac; save your work before plugging the GPU in',
    evidence: [{ source: 'tinygrad/tinygrad issues 16097 and 16534', value: undefined }],
  }
}

function about(gpu: DetectedGpu): Pick<Finding, 'deviceId' | 'enclosureId'> {
  return { deviceId: gpu.observation.key, enclosureId: gpu.observation.enclosureId }
}

function labelOf({ observation: { gpu } }: DetectedGpu): string {
  const hex = (id: number | undefined): string => id?.toString(16).padStart(4, '0') ?? '????'
  return gpu.name ?? `the GPU ${hex(gpu.vendorId)}:${hex(gpu.deviceId)}`
}

function hexClass({ observation: { gpu } }: DetectedGpu): string | undefined {
  return gpu.pciClass?.toString(16).padStart(6, '0')
}
