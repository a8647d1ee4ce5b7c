import type { DeviceHolder, SystemPlan } from '@egpu/core'
import { functionTitles } from './card-functions.ts'
import type { CardFunction } from './card-functions.ts'
import { run, write } from './moves.ts'
import type { Move } from './moves.ts'

/** Everything a removal plan is made from. */
export interface RemovalFacts {
  readonly key: string
  readonly sysfsRoot: string
  readonly name: string
  /** In the order in which they go. */
  readonly functions: readonly CardFunction[]
  /** The bridge right above the card: rescanning it brings the card back. `undefined` on a root bus. */
  readonly bridgeAbove?: string | undefined
  /** Other GPUs that the same kernel driver drives. */
  readonly siblings: number
  readonly conclusion: 'external' | 'internal' | 'unknown'
  readonly dead: boolean
  readonly holders: readonly DeviceHolder[]
  readonly hiddenProcesses: number
  readonly mounts: readonly string[]
  readonly displays: readonly string[]
  readonly router?:
    | {
        readonly name: string
        readonly boxName: string
        /** The domain lets a router be deauthorized. */
        readonly canDeauthorize: boolean
        /** What else would go with it: addresses of other devices behind its tunnel, names of boxes behind it. */
        readonly others: readonly string[]
      }
    | undefined
  /** The hot-plug slot that holds the card, when it has a power switch. */
  readonly slot?: string | undefined
  /** Why nothing may be changed, as a refusal. */
  readonly obstacle?: string | undefined
}

export interface RemovalPlan extends SystemPlan {
  readonly moves: readonly Move[]
}

/** Modules of NVIDIA's driver, in the order in which they let go of each other. */
const nvidiaModules = ['nvidia_drm', 'nvidia_modeset', 'nvidia_uvm', 'nvidia'] as const

/** What has to happen before the cable may be pulled. Pure; changes nothing. */
export function planRemoval(facts: RemovalFacts): RemovalPlan {
  const { key, holders } = facts
  if (facts.dead) {
    return {
      key,
      steps: [],
      moves: [],
      holders,
      refusals: [`${facts.name} is dead already: touching its driver now can hang the machine`],
      notes: [
        'Pull the cable first. Only then end the processes that still hold the GPU.',
        'Do not unbind or unload its driver while the dead device is still on the bus; if a process hangs, reboot.',
      ],
    }
  }
  const moves = [...releaseDriver(facts), ...removeFunctions(facts), ...lastStep(facts)]
  return { key, steps: moves.map(({ step }) => step), moves, holders, refusals: refusals(facts), notes: notes(facts) }
}

function refusals(facts: RemovalFacts): readonly string[] {
  const reasons: string[] = []
  if (facts.conclusion === 'internal') reasons.push(`${facts.name} is built in, so there is nothing to unplug`)
  for (const mount of facts.mounts) reasons.push(`a file system of the card is mounted: ${mount}; unmount it first`)
  if (facts.obstacle !== undefined) reasons.push(facts.obstacle)
  return reasons
}

function notes(facts: RemovalFacts): readonly string[] {
  const lines: string[] = []
  if (facts.conclusion === 'unknown')
    lines.push('Nothing proves that this GPU is external: make sure that it is the one you mean.')
  if (facts.displays.length > 0) lines.push(`Monitors on it go dark: ${facts.displays.join(', ')}.`)
  if (facts.hiddenProcesses > 0) {
    lines.push(
      `${facts.hiddenProcesses} processes of other users could not be looked into; only root sees whether they hold it.`,
    )
  }
  const { router } = facts
  if (router !== undefined && router.canDeauthorize && router.others.length > 0) {
    lines.push(`${router.boxName} stays connected, because these share its cable: ${router.others.join(', ')}.`)
  }
  return lines
}

/**
 * NVIDIA's modules hold each other, and `unbind` waits for them: unload them where no other GPU needs them. Every other
 * driver lets go by itself when its function is removed.
 */
function releaseDriver({ functions, siblings, sysfsRoot }: RemovalFacts): readonly Move[] {
  const gpu = functions.find(({ kind }) => kind === 'gpu')
  if (gpu?.driver !== 'nvidia') return []
  if (siblings === 0) {
    const title = 'Unload the NVIDIA driver, which no other GPU uses'
    const back = [...nvidiaModules].reverse()
    return [run('unload-driver', title, ['modprobe', '-r', ...nvidiaModules], ['modprobe', '-a', ...back])]
  }
  const driver = `${sysfsRoot}/bus/pci/drivers/nvidia`
  return [
    write('unbind-driver', 'Unbind the NVIDIA driver from this GPU', `${driver}/unbind`, gpu.address, {
      path: `${driver}/bind`,
      value: gpu.address,
    }),
  ]
}

function removeFunctions({ functions, bridgeAbove, sysfsRoot }: RemovalFacts): readonly Move[] {
  const rescan =
    bridgeAbove === undefined ? `${sysfsRoot}/bus/pci/rescan` : `${sysfsRoot}/bus/pci/devices/${bridgeAbove}/rescan`
  // NVIDIA's driver has let go by then.
  const from = (driver: string | undefined): string =>
    driver === undefined || driver === 'nvidia' ? '' : ` from ${driver} and`
  return functions.map(({ address, kind, driver }) =>
    write(
      `remove-${address}`,
      `Take the ${functionTitles[kind]} at ${address}${from(driver)} off the bus`,
      `${sysfsRoot}/bus/pci/devices/${address}/remove`,
      '1',
      { path: rescan, value: '1' },
    ),
  )
}

/** The box gives up its tunnel, or the slot its power: afterwards nothing can come back by itself. */
function lastStep({ router, slot, sysfsRoot }: RemovalFacts): readonly Move[] {
  if (router !== undefined && router.canDeauthorize && router.others.length === 0) {
    const path = `${sysfsRoot}/bus/thunderbolt/devices/${router.name}/authorized`
    return [write('deauthorize', `Close the PCI Express tunnel to ${router.boxName}`, path, '0', { path, value: '1' })]
  }
  if (router !== undefined || slot === undefined) return []
  const path = `${sysfsRoot}/bus/pci/slots/${slot}/power`
  return [write('power-off', `Switch off slot ${slot}`, path, '0', { path, value: '1' })]
}
