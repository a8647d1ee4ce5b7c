import type { DeviceHolder, PassthroughPlan } from '@egpu/core'
import { functionTitles } from '../removal/card-functions.ts'
import type { CardFunction } from '../removal/card-functions.ts'
import { run, write } from '../removal/moves.ts'
import type { Move } from '../removal/moves.ts'
import { libvirtXmlOf, qemuArgumentsOf } from './guest-config.ts'

/** Everything a passthrough plan is made from. */
export interface PassthroughFacts {
  readonly key: string
  readonly sysfsRoot: string
  readonly name: string
  /** In the order in which they are handed over. */
  readonly functions: readonly CardFunction[]
  readonly iommuGroup?: number | undefined
  /** Other endpoints in the groups of these functions. A VM would get them too. */
  readonly foreign: readonly string[]
  readonly bootVga: boolean
  readonly dead: boolean
  /** How the GPU can be reset between two guests; `undefined` when it cannot, or the kernel does not say. */
  readonly resetMethod?: string | undefined
  readonly vfioLoaded: boolean
  readonly displays: readonly string[]
  readonly holders: readonly DeviceHolder[]
  /** Why nothing may be changed, as a refusal. */
  readonly obstacle?: string | undefined
}

export interface PassthroughMoves extends PassthroughPlan {
  readonly moves: readonly Move[]
}

/** What has to happen before a virtual machine can have the card. Pure; changes nothing. */
export function planPassthrough(facts: PassthroughFacts): PassthroughMoves {
  const addresses = facts.functions.map(({ address }) => address).sort((a, b) => (a < b ? -1 : 1))
  const load = facts.vfioLoaded
    ? []
    : [run('load-vfio', 'Load the vfio-pci driver', ['modprobe', 'vfio-pci'], ['modprobe', '-r', 'vfio-pci'])]
  const moves = [...load, ...facts.functions.flatMap((one) => handOver(facts.sysfsRoot, one))]
  return {
    key: facts.key,
    steps: moves.map(({ step }) => step),
    moves,
    holders: facts.holders,
    refusals: refusals(facts),
    notes: notes(facts),
    functions: addresses,
    iommuGroup: facts.iommuGroup,
    qemuArguments: qemuArgumentsOf(addresses),
    libvirtXml: libvirtXmlOf(addresses),
  }
}

/** Gives what vfio-pci has back to the drivers that the kernel would choose. */
export function planRelease(sysfsRoot: string, functions: readonly CardFunction[]): readonly Move[] {
  // The GPU first: its sound and USB functions expect it to be awake.
  return [...functions]
    .reverse()
    .filter(({ driver }) => driver === 'vfio-pci')
    .flatMap(({ address, kind }) => {
      const device = `${sysfsRoot}/bus/pci/devices/${address}`
      const vfio = `${sysfsRoot}/bus/pci/drivers/vfio-pci`
      const probe = `${sysfsRoot}/bus/pci/drivers_probe`
      const title = functionTitles[kind]
      return [
        write(`unbind-${address}`, `Take the ${title} from vfio-pci`, `${vfio}/unbind`, address, {
          path: probe,
          value: address,
        }),
        write(`default-${address}`, `Let its own driver have the ${title}`, `${device}/driver_override`, '', {
          path: `${device}/driver_override`,
          value: 'vfio-pci',
        }),
        write(`probe-${address}`, `Bind the driver of the ${title}`, probe, address, {
          path: `${device}/driver/unbind`,
          value: address,
        }),
      ]
    })
}

/** `driver_override` binds this one function, not every card of its model (Documentation/ABI/testing/sysfs-bus-pci). */
function handOver(sysfsRoot: string, { address, kind, driver }: CardFunction): readonly Move[] {
  if (driver === 'vfio-pci') return []
  const device = `${sysfsRoot}/bus/pci/devices/${address}`
  const title = functionTitles[kind]
  const unbind =
    driver === undefined
      ? []
      : [
          write(`unbind-${address}`, `Take the ${title} from ${driver}`, `${device}/driver/unbind`, address, {
            path: `${sysfsRoot}/bus/pci/drivers/${driver}/bind`,
            value: address,
          }),
        ]
  return [
    ...unbind,
    write(`override-${address}`, `Reserve the ${title} for vfio-pci`, `${device}/driver_override`, 'vfio-pci', {
      path: `${device}/driver_override`,
      value: '',
    }),
    write(`probe-${address}`, `Bind the ${title} to vfio-pci`, `${sysfsRoot}/bus/pci/drivers_probe`, address, {
      path: `${sysfsRoot}/bus/pci/drivers/vfio-pci/unbind`,
      value: address,
    }),
  ]
}

function refusals(facts: PassthroughFacts): readonly string[] {
  const reasons: string[] = []
  if (facts.dead) reasons.push(`${facts.name} is dead: re-plug it first`)
  if (facts.bootVga)
    reasons.push(`${facts.name} is the one the machine boots with (boot_vga): its console would be lost`)
  if (facts.iommuGroup === undefined) {
    reasons.push('there is no IOMMU: switch on VT-d or AMD-Vi in the firmware, and on Intel boot with intel_iommu=on')
  }
  if (facts.foreign.length > 0) {
    reasons.push(
      `its IOMMU group holds devices that are not part of the card and would go along: ${facts.foreign.join(', ')}; ` +
        'use a slot or port behind a bridge with ACS',
    )
  }
  if (facts.obstacle !== undefined) reasons.push(facts.obstacle)
  return reasons
}

function notes(facts: PassthroughFacts): readonly string[] {
  const lines: string[] = []
  if (facts.resetMethod === undefined) {
    lines.push('The kernel knows no way to reset this GPU: a second start of the guest may need a re-plug.')
  } else if (!facts.resetMethod.split(' ').includes('flr')) {
    lines.push(`The GPU is reset by ${facts.resetMethod}, not by a function level reset; some cards do not survive it.`)
  }
  if (facts.displays.length > 0)
    lines.push(`Monitors on it go dark until the guest uses them: ${facts.displays.join(', ')}.`)
  lines.push('A cable that is pulled while a guest has the GPU stops the guest; shut it down first.')
  return lines
}
