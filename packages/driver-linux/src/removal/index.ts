import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { AbortOptions, PlanOutcome, RunPlanOptions, SystemPlan } from '@egpu/core'
import type { SafeRemovalCapability } from '@egpu/core/driver'
import { listQuietly, readQuietly } from '../quiet-files.ts'
import { portOf } from '../enclosure/enclosures.ts'
import { cardOf } from '../stage.ts'
import { findGpu, gpusBehindRouter } from '../survey.ts'
import type { Survey, SurveyedGpu } from '../survey.ts'
import { bridgesAbove, deviceAddressOf, functionsOf, isBridge } from '../topology/functions.ts'
import type { PciFunction } from '../topology/types.ts'
import { cardFunctionsOf } from './card-functions.ts'
import { deviceNodesOf } from './device-nodes.ts'
import type { DeviceNode } from './device-nodes.ts'
import { executeInChild } from './execute.ts'
import type { Execute } from './execute.ts'
import { findHolders, findMounts } from './holders.ts'
import { nvidiaNodesOf } from './nvidia-nodes.ts'
import { obstacleTo } from './obstacle.ts'
import { planRemoval } from './plan.ts'
import type { RemovalFacts, RemovalPlan } from './plan.ts'
import { runMoves } from './run-moves.ts'
import { whyNot } from './why-not.ts'

/** The machine a removal is about. */
export interface RemovalContext {
  readonly sysfsRoot: string
  /** Without one nobody can be seen to hold anything, and nothing is run. */
  readonly procRoot?: string | undefined
  survey(options: AbortOptions): Promise<Survey>
  /** Told before the first step of a run, and again when it has failed. */
  onRemoval?(key: string, expected: boolean): void
  /** Carries out the steps instead of a child process: then the machine may also be a recorded one. */
  readonly execute?: Execute | undefined
}

/** Safe removal: who holds the card, what would be done in which order, and doing it. */
export function linuxSafeRemoval(context: RemovalContext): SafeRemovalCapability {
  const execute = context.execute ?? executeInChild
  const plan = async (key: string, { signal }: AbortOptions = {}): Promise<RemovalPlan> => {
    const survey = await context.survey({ signal })
    return planRemoval(factsOf(context, survey, findGpu(survey, key)))
  }
  return {
    plan: async (key, options) => publicPlan(await plan(key, options)),
    run: async (shown: SystemPlan, options: RunPlanOptions = {}): Promise<PlanOutcome> => {
      const now = await plan(shown.key, options)
      const reason = whyNot(shown, now)
      if (reason !== undefined) {
        return { done: false, failedStep: undefined, reason, undone: [], holders: now.holders }
      }
      const addresses = now.moves.flatMap(({ step }) => (step.id.startsWith('remove-') ? [step.id.slice(7)] : []))
      context.onRemoval?.(shown.key, true)
      let done = false
      try {
        const outcome = await runMoves(now.moves, {
          ...options,
          execute,
          verify: () => {
            const left = addresses.filter((address) => existsSync(join(context.sysfsRoot, 'bus/pci/devices', address)))
            return left.length === 0 ? undefined : `still on the bus: ${left.join(', ')}`
          },
          holders: () => now.holders,
        })
        done = outcome.done
        return outcome
      } finally {
        if (!done) context.onRemoval?.(shown.key, false)
      }
    },
  }
}

function publicPlan({ key, steps, holders, refusals, notes }: RemovalPlan): SystemPlan {
  return { key, steps, holders, refusals, notes }
}

function factsOf(context: RemovalContext, survey: Survey, surveyed: SurveyedGpu): RemovalFacts {
  const { sysfsRoot, procRoot } = context
  const { topology } = survey
  const { gpu, join: joined } = surveyed
  const nodes = cardNodes(context, survey, surveyed)
  const scan =
    procRoot === undefined
      ? undefined
      : findHolders(
          { sysfsRoot, procRoot },
          nodes.filter(({ harmless }) => !harmless),
        )
  const card = cardOf(topology, surveyed)
  const connected = card?.connectors.filter(({ status }) => status === 'connected') ?? []
  const { router } = joined
  const domain = topology.thunderbolt.domains.find(({ index }) => index === router?.domain)
  const enclosure = survey.enclosures.find(({ id }) => id === surveyed.enclosureId)
  return {
    key: surveyed.key,
    sysfsRoot,
    name: `The GPU at ${gpu.address}`,
    functions: cardFunctionsOf(topology, gpu),
    bridgeAbove: bridgesAbove(topology, gpu).at(-1)?.address,
    siblings: survey.gpus.filter((other) => other !== surveyed && other.gpu.driver === gpu.driver).length,
    conclusion: surveyed.verdict.conclusion,
    dead: surveyed.death !== undefined,
    holders: scan?.holders ?? [],
    hiddenProcesses: scan?.hidden ?? 0,
    mounts: procRoot === undefined ? [] : findMounts(procRoot, nodes),
    displays: connected.map(({ name }) => `${card?.name}/${name}`),
    router:
      router === undefined
        ? undefined
        : {
            name: router.name,
            boxName: enclosure?.name ?? `the box at ${portOf(router) ?? router.name}`,
            canDeauthorize: domain?.deauthorization === true,
            others: othersBehind(survey, surveyed, router.name),
          },
    slot: slotOf(sysfsRoot, gpu),
    obstacle: obstacleTo(context, `bus/pci/devices/${gpu.address}/remove`),
  }
}

/** All nodes of the card, those that NVIDIA's driver makes outside sysfs included. */
export function cardNodes(
  { sysfsRoot, procRoot }: Pick<RemovalContext, 'sysfsRoot' | 'procRoot'>,
  { gpus, topology }: Survey,
  { gpu }: SurveyedGpu,
): readonly DeviceNode[] {
  const nodes = functionsOf(topology, gpu.address).flatMap(({ path }) => deviceNodesOf(sysfsRoot, path))
  const group = gpu.details?.iommuGroup
  if (gpu.driver === 'vfio-pci' && group !== undefined) nodes.push({ path: `/dev/vfio/${group}`, harmless: false })
  const peers = gpus.filter(({ gpu: other }) => other.driver === gpu.driver)
  if (gpu.driver === 'nvidia') nodes.push(...nvidiaNodesOf(procRoot, gpu, peers.length))
  // Compute processes of AMD's driver share one node; it says something about this GPU only when there is no other.
  if (gpu.driver === 'amdgpu' && peers.length === 1) nodes.push({ path: '/dev/kfd', harmless: false })
  return nodes
}

/** What else would lose its connection if this router were deauthorized. */
function othersBehind(survey: Survey, surveyed: SurveyedGpu, router: string): readonly string[] {
  const { topology } = survey
  const boxes = topology.thunderbolt.routers
    .filter(({ parent }) => parent === router)
    .map(({ name }) => `router ${name}`)
  const gpus = gpusBehindRouter(survey, router)
    .filter((other) => other !== surveyed)
    .map(({ gpu }) => gpu.address)
  const root = surveyed.gpu.parents[0]
  const card = deviceAddressOf(surveyed.gpu.address)
  const devices = [...topology.pci.values()]
    .filter((one) => root !== undefined && one.parents[0] === root && !isBridge(one))
    .filter(({ address }) => deviceAddressOf(address) !== card && !gpus.includes(address))
    .map(({ address }) => address)
  return [...boxes, ...gpus, ...devices]
}

/** The slot whose address is the card's, when it has a power switch. */
function slotOf(sysfsRoot: string, gpu: PciFunction): string | undefined {
  const slots = join(sysfsRoot, 'bus/pci/slots')
  return listQuietly(slots).find((name) => {
    const address = readQuietly(join(slots, name, 'address'))?.trim()
    return address === deviceAddressOf(gpu.address) && existsSync(join(slots, name, 'power'))
  })
}
