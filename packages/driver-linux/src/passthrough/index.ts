import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { AbortOptions, PassthroughPlan, PlanOutcome, RunPlanOptions } from '@egpu/core'
import type { PassthroughCapability } from '@egpu/core/driver'
import { linkedName, listQuietly, readQuietly } from '../quiet-files.ts'
import { cardFunctionsOf } from '../removal/card-functions.ts'
import { executeInChild } from '../removal/execute.ts'
import { findHolders } from '../removal/holders.ts'
import { cardNodes } from '../removal/index.ts'
import type { RemovalContext } from '../removal/index.ts'
import { obstacleTo } from '../removal/obstacle.ts'
import { runMoves } from '../removal/run-moves.ts'
import { whyNot } from '../removal/why-not.ts'
import { cardOf } from '../stage.ts'
import { findGpu } from '../survey.ts'
import type { Survey, SurveyedGpu } from '../survey.ts'
import { isBridge } from '../topology/functions.ts'
import { planPassthrough, planRelease } from './plan.ts'
import type { PassthroughMoves } from './plan.ts'

/** Handing the card to a virtual machine through VFIO, and taking it back. */
export function linuxPassthrough(context: RemovalContext): PassthroughCapability {
  const { sysfsRoot } = context
  const execute = context.execute ?? executeInChild
  const plan = async (key: string, { signal }: AbortOptions): Promise<PassthroughMoves> => {
    const survey = await context.survey({ signal })
    return planNow(context, survey, findGpu(survey, key))
  }
  const verify =
    (addresses: readonly string[], isRight: (driver: string | undefined) => boolean) => (): string | undefined => {
      const wrong = addresses.filter((address) => !isRight(driverOf(sysfsRoot, address)))
      const found = wrong.map((address) => `${address} is bound to ${driverOf(sysfsRoot, address) ?? 'no driver'}`)
      return found.length === 0 ? undefined : found.join(', ')
    }
  return {
    plan: async (key, options = {}) => publicPlan(await plan(key, options)),
    async bind(shown: PassthroughPlan, options: RunPlanOptions = {}): Promise<PlanOutcome> {
      const now = await plan(shown.key, options)
      const reason = whyNot(shown, now)
      if (reason !== undefined) return refused(reason, now)
      return runMoves(now.moves, {
        ...options,
        execute,
        verify: verify(now.functions, (driver) => driver === 'vfio-pci'),
      })
    },
    async release(key: string, options: RunPlanOptions = {}): Promise<PlanOutcome> {
      const survey = await context.survey(options)
      const surveyed = findGpu(survey, key)
      const obstacle = obstacleTo(context, `bus/pci/devices/${surveyed.gpu.address}/driver_override`)
      if (obstacle !== undefined) return refused(obstacle, { holders: [] })
      const holders = holdersOf(context, survey, surveyed)
      const names = holders.map(({ name, pid }) => `${name ?? 'a process'} (${pid})`)
      if (names.length > 0) return refused(`a guest still has it: ${names.join(', ')}`, { holders })
      const functions = cardFunctionsOf(survey.topology, surveyed.gpu)
      const moves = planRelease(sysfsRoot, functions)
      const addresses = functions.map(({ address }) => address)
      return runMoves(moves, { ...options, execute, verify: verify(addresses, (driver) => driver !== 'vfio-pci') })
    },
  }
}

function refused(reason: string, { holders }: Pick<PassthroughPlan, 'holders'>): PlanOutcome {
  return { done: false, failedStep: undefined, reason, undone: [], holders }
}

function publicPlan({ moves: _moves, ...plan }: PassthroughMoves): PassthroughPlan {
  return plan
}

function planNow(context: RemovalContext, survey: Survey, surveyed: SurveyedGpu): PassthroughMoves {
  const { sysfsRoot } = context
  const { topology } = survey
  const { gpu } = surveyed
  const functions = cardFunctionsOf(topology, gpu)
  const own = new Set(functions.map(({ address }) => address))
  const groups = new Set(functions.flatMap(({ address }) => groupOf(sysfsRoot, address) ?? []))
  const members = [...groups].flatMap((group) =>
    listQuietly(join(sysfsRoot, 'kernel/iommu_groups', String(group), 'devices')),
  )
  const foreign = members.filter((address) => {
    const member = topology.pci.get(address)
    // Bridges stay with the host; VFIO allows them in a group.
    return !own.has(address) && member !== undefined && !isBridge(member)
  })
  const device = join(sysfsRoot, 'bus/pci/devices', gpu.address)
  const card = cardOf(topology, surveyed)
  const connected = card?.connectors.filter(({ status }) => status === 'connected') ?? []
  return planPassthrough({
    key: surveyed.key,
    sysfsRoot,
    name: `The GPU at ${gpu.address}`,
    functions,
    iommuGroup: groupOf(sysfsRoot, gpu.address),
    foreign: [...new Set(foreign)],
    bootVga: gpu.details?.bootVga === true,
    dead: surveyed.death !== undefined,
    resetMethod: resetMethodOf(device),
    vfioLoaded: existsSync(join(sysfsRoot, 'bus/pci/drivers/vfio-pci')),
    displays: connected.map(({ name }) => `${card?.name}/${name}`),
    holders: holdersOf(context, survey, surveyed),
    obstacle: obstacleTo(context, `bus/pci/devices/${gpu.address}/driver_override`),
  })
}

function holdersOf(context: RemovalContext, survey: Survey, surveyed: SurveyedGpu): PassthroughPlan['holders'] {
  const { sysfsRoot, procRoot } = context
  if (procRoot === undefined) return []
  const nodes = cardNodes(context, survey, surveyed).filter(({ harmless }) => !harmless)
  return findHolders({ sysfsRoot, procRoot }, nodes).holders
}

/** `flr bus`, the methods in the order the kernel tries them; before Linux 5.15 only that there is one. */
function resetMethodOf(device: string): string | undefined {
  const methods = readQuietly(join(device, 'reset_method'))?.trim()
  if (methods !== undefined) return methods === '' ? undefined : methods
  return existsSync(join(device, 'reset')) ? 'a method of its own' : undefined
}

function groupOf(sysfsRoot: string, address: string): number | undefined {
  const name = linkedName(join(sysfsRoot, 'bus/pci/devices', address, 'iommu_group'))
  return name !== undefined && /^\d+$/.test(name) ? Number(name) : undefined
}

function driverOf(sysfsRoot: string, address: string): string | undefined {
  return linkedName(join(sysfsRoot, 'bus/pci/devices', address, 'driver'))
}
