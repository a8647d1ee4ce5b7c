import { findEnclosureModels } from '@egpu/core'
import type { Finding } from '@egpu/core'
import { below, pathOf } from '../registry/picture.ts'
import type { RegistryNode, RegistryPicture } from '../registry/picture.ts'
import { asNumber, asText } from '../registry/value.ts'
import type { Surroundings } from './detect.ts'
import type { ListedExtension } from './extensions.ts'
import type { DetectedGpu } from './gpu.ts'
import { findGpuFindings } from './gpu-findings.ts'
import { hostGeneration, hostInterfaceType } from './host.ts'
import type { Host } from './host.ts'
import type { Join } from './join.ts'
import { describeCable } from './link.ts'
import { hasPciClass, isTunnelled, PciBaseClass, pciClassOf, pciId } from './pci.ts'
import { describeEnclosure, enclosureIdOf, isBlocked, receptacleOf } from './router.ts'
import type { Router } from './router.ts'

/** All that was found out. */
export interface Facts {
  readonly picture: RegistryPicture
  readonly host: Host
  readonly routers: readonly Router[]
  /** Tunnelled functions with the router they sit behind. */
  readonly joins: ReadonlyMap<RegistryNode, Join>
  readonly gpus: readonly DetectedGpu[]
  readonly extensions: readonly ListedExtension[]
  readonly surroundings: Surroundings
}

/** What a person should know, by how far the GPU got: the box, its tunnel, its functions, its driver, the host. */
export function findFindings(facts: Facts): readonly Finding[] {
  return [
    ...blockedBoxes(facts),
    ...audioWithoutGpu(facts),
    ...boxesWithoutGpu(facts),
    ...usbFallback(facts),
    ...externalAccelerators(facts),
    ...findGpuFindings(facts),
    ...slowCables(facts),
    ...unknownHosts(facts),
    ...hotHost(facts),
  ]
}

function blockedBoxes({ routers }: Facts): Finding[] {
  return routers.filter(isBlocked).map((router) => ({
    code: 'enclosure-blocked',
    severity: 'error',
    enclosureId: enclosureIdOf(router),
    seen: `macOS lists ${nameOf(router)} as unsupported and opens no PCI Express tunnel to it`,
    advice: 'update the firmware of the enclosure; boxes with an early Thunderbolt 3 chip stay blocked on macOS',
    evidence: [{ source: 'Device Model Name', value: asText(router.node.properties.get('Device Model Name')) }],
  }))
}

/** A box made for GPUs, connected, with nothing of a GPU behind it. Docks and displays have nothing to miss. */
function boxesWithoutGpu({ routers, joins, picture }: Facts): Finding[] {
  const behind = new Set([...joins.values()].map((join) => join.router))
  const unplaced = picture.withRole('pci').some((node) => isFunction(node) && isTunnelled(node) && !joins.has(node))
  return routers
    .filter((router) => !behind.has(router) && !unplaced && !isBlocked(router) && isGpuBox(router))
    .map((router) => ({
      code: 'enclosure-without-gpu',
      severity: 'error',
      enclosureId: enclosureIdOf(router),
      seen: `${nameOf(router)} is connected at ${receptacleOf(router) ?? 'an unknown port'}, but no PCI device came up behind it`,
      advice:
        'check that the card sits firmly and has all its power cables, then switch the enclosure off and on; ' +
        'if it stays so, plug it in before the Mac starts',
      evidence: [{ source: pathOf(router.node), value: router.uid }],
    }))
}

function isFunction(node: RegistryNode): boolean {
  return !hasPciClass(node, PciBaseClass.Bridge)
}

function isGpuBox(router: Router): boolean {
  if (router.isHost) return false
  const enclosure = describeEnclosure(router, undefined)
  // Below 0.8 a name merely resembles that of a box; docks have such names too.
  return findEnclosureModels(enclosure).some((match) => match.confidence >= 0.8)
}

/** A card shows two functions; when only its sound is there, the GPU itself did not come up. */
function audioWithoutGpu({ picture, joins }: Facts): Finding[] {
  const functions = picture.withRole('pci')
  return functions
    .filter((node) => isHdmiAudio(node) && isTunnelled(node))
    .filter(
      (audio) => !functions.some((other) => other.parent === audio.parent && hasPciClass(other, PciBaseClass.Display)),
    )
    .map((audio) => {
      const join = joins.get(audio)
      return {
        code: 'audio-function-only',
        severity: 'error',
        enclosureId: join === undefined ? undefined : enclosureIdOf(join.router),
        seen: `only the audio function ${idsOf(audio)} of a graphics card came up, not its GPU`,
        advice: 'switch the enclosure off and on with the cable plugged in; check the power cables of the card',
        evidence: [{ source: pathOf(audio), value: idsOf(audio) }],
      }
    })
}

/** Sound of a maker of graphics cards. */
function isHdmiAudio(node: RegistryNode): boolean {
  const makers = [0x1002, 0x10de, 0x8086]
  return pciClassOf(node) === 0x040300 && makers.includes(pciId(node, 'vendor-id') ?? 0)
}

/** USB ids of ASM2464 bridges in GPU boxes, stock firmware and tinygrad's (tinygrad/tinygrad, extra/usbgpu). */
const usbBridges: ReadonlySet<string> = new Set(['174c:2463', '174c:2464', 'add1:0001', '3801:0001'])

/** Whether it is the USB side of a chip that GPU boxes have. */
export function isGpuBridge(node: RegistryNode): boolean {
  return usbBridges.has(usbIdsOf(node))
}

/** Such a bridge without USB4 runs as a USB device. The same chip serves SSDs, which show as a disk. */
function usbFallback({ picture }: Facts): Finding[] {
  return picture
    .withRole('usb')
    .filter((node) => isGpuBridge(node) && ![...below(node)].some((one) => one.roles.has('media')))
    .map((node) => ({
      code: 'usb-fallback',
      severity: 'error',
      seen: `${asText(node.properties.get('USB Product Name')) ?? 'a PCI Express bridge'} (${usbIdsOf(node)}) runs as a USB device, so no PCI Express reaches the Mac`,
      advice: 'use a cable marked Thunderbolt or USB4 of 40 Gb/s, plug it in anew, and switch the enclosure on first',
      evidence: [{ source: pathOf(node), value: usbIdsOf(node) }],
    }))
}

function usbIdsOf(node: RegistryNode): string {
  const hex = (key: string): string => (asNumber(node.properties.get(key)) ?? 0).toString(16).padStart(4, '0')
  return `${hex('idVendor')}:${hex('idProduct')}`
}

/** Class 0x12 is no GPU, however much it looks like one in the same box. */
function externalAccelerators({ picture, joins }: Facts): Finding[] {
  return picture
    .withRole('pci')
    .filter((node) => hasPciClass(node, PciBaseClass.Accelerator) && isTunnelled(node))
    .map((node) => {
      const join = joins.get(node)
      return {
        code: 'external-accelerator',
        severity: 'info',
        enclosureId: join === undefined ? undefined : enclosureIdOf(join.router),
        seen: `${idsOf(node)} is a processing accelerator, not a GPU`,
        advice: 'use it through its maker’s own software; no GPU runtime will offer it',
        evidence: [{ source: pathOf(node), value: `class ${pciClassOf(node)?.toString(16).padStart(6, '0')}` }],
      }
    })
}

function slowCables({ routers }: Facts): Finding[] {
  return routers.flatMap((router) => {
    const downgrade = router.isHost ? undefined : describeCable(router).downgrade
    if (downgrade === undefined) return []
    return [
      {
        code: 'link-downgrade',
        severity: 'warning',
        enclosureId: enclosureIdOf(router),
        seen: `the cable to ${nameOf(router)} runs at ${downgrade.actual} and could run at ${downgrade.expected}`,
        advice: 'try a shorter cable that is certified for that speed, and plug it straight into the Mac',
        evidence: [{ source: pathOf(router.node), value: downgrade.actual }],
      },
    ]
  })
}

function unknownHosts({ picture }: Facts): Finding[] {
  const types = new Set(picture.withRole('controller').map(hostInterfaceType))
  return [...types]
    .filter((type) => type !== undefined && hostGeneration(type) === undefined)
    .map((type) => ({
      code: 'host-controller-unknown',
      severity: 'info',
      seen: `this Mac has a Thunderbolt controller of Type${type}, which this version does not know`,
      advice: 'update @egpu/driver-macos; until then the generation of its ports is unknown',
      evidence: [{ source: 'AppleThunderboltNHI', value: `Type${type}` }],
    }))
}

/** Levels of IOPM.h: 5 danger, 10 critical, 100 warning, 110 trap; 0 is normal and 255 unknown. They are no scale. */
const hotLevels: ReadonlySet<number | undefined> = new Set([5, 10, 100, 110])

function hotHost({ surroundings: { thermalLevel } }: Facts): Finding[] {
  if (!hotLevels.has(thermalLevel)) return []
  return [
    {
      code: 'host-thermal-pressure',
      severity: 'warning',
      seen: 'macOS reports thermal pressure and may slow the Mac down',
      advice: 'give the Mac air, or less work; what an external GPU is fed with comes from it',
      evidence: [{ source: 'IOPMGetThermalWarningLevel', value: String(thermalLevel) }],
    },
  ]
}

function nameOf(router: Router): string {
  const { name, vendorName } = describeEnclosure(router, undefined)
  return [vendorName, name].filter((part) => part !== undefined).join(' ') || 'an enclosure without a name'
}

function idsOf(node: RegistryNode): string {
  const hex = (key: string): string => pciId(node, key)?.toString(16).padStart(4, '0') ?? '????'
  return `${hex('vendor-id')}:${hex('device-id')}`
}
