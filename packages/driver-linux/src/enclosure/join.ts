import type { Evidence } from '@egpu/core'
import { thunderboltBridgeOf } from '../data/thunderbolt-bridges.ts'
import type { TunnelPort } from '../topology/tunnels.ts'
import type { PciFunction, ThunderboltRouter, Topology } from '../topology/types.ts'
import type { JoinHints } from './hints.ts'
import { boxBridges, nestingDepth } from './nesting.ts'
import { routerUidOf } from './router-uid.ts'

/** In which box a GPU is. The kernel does not say; this is worked out. */
export interface Join {
  /** The one box it can be. */
  readonly router?: ThunderboltRouter | undefined
  /** All boxes it may be, when there is more than one. */
  readonly candidates: readonly ThunderboltRouter[]
  readonly evidence: readonly Evidence[]
}

/** What a step may look at. */
interface Question {
  readonly topology: Topology
  readonly gpu: PciFunction
  readonly tunnel: TunnelPort | undefined
  readonly hints: JoinHints
}

/** Takes away boxes it cannot be. */
interface Step {
  readonly signal: string
  readonly weight: number
  /** An exact step that leaves nothing means that it is in none of them; from others it means they do not apply. */
  readonly exact: boolean
  keep(question: Question, router: ThunderboltRouter): boolean | undefined
}

/** Strongest first. `undefined` from `keep` means that the step knows nothing. */
const steps: readonly Step[] = [
  {
    signal: 'host-interface',
    weight: 0.8,
    exact: true,
    keep({ topology, tunnel }, router) {
      if (tunnel?.hostInterface === undefined) return undefined
      const domain = topology.thunderbolt.domains.find(({ hostInterface }) => hostInterface === tunnel.hostInterface)
      return domain === undefined ? undefined : router.domain === domain.index
    },
  },
  {
    signal: 'serial-number-is-router-uid',
    weight: 0.99,
    exact: false,
    keep(question, router) {
      const serial = boxSerial(question)
      return serial === undefined ? undefined : routerUidOf(router.uniqueId) === serial
    },
  },
  {
    signal: 'tunnel-event',
    weight: 0.95,
    exact: false,
    keep({ gpu, hints }, router) {
      const name = hints.tunnelEvents?.get(gpu.address)
      return name === undefined ? undefined : router.name === name
    },
  },
  {
    signal: 'remembered',
    weight: 0.9,
    exact: false,
    keep({ gpu, hints }, router) {
      const remembered = hints.remembered?.get(gpu.address)
      return remembered === undefined ? undefined : router.uniqueId === remembered.uniqueId
    },
  },
  { signal: 'authorized', weight: 0.5, exact: false, keep: (_, router) => router.authorized !== 0 },
  {
    signal: 'nesting-depth',
    weight: 0.7,
    exact: false,
    keep({ topology, gpu, tunnel }, router) {
      const depth = nestingDepth(boxBridges(topology, gpu, tunnel))
      return depth === 0 ? undefined : router.hops.length === depth
    },
  },
  {
    signal: 'port-order',
    weight: 0.6,
    exact: false,
    keep({ tunnel }, router) {
      // Lane adapters 1 and 2 of the host router are its first port, 3 and 4 the second.
      const first = router.hops[0]
      return tunnel?.ordinal === undefined || first === undefined ? undefined : (first - 1) >> 1 === tunnel.ordinal
    },
  },
  {
    signal: 'subsystem-is-router',
    weight: 0.6,
    exact: false,
    keep: ({ gpu }, router) =>
      gpu.subsystemDeviceId === undefined || router.deviceId === undefined || router.deviceId === 0
        ? undefined
        : router.deviceId === gpu.subsystemDeviceId,
  },
  {
    signal: 'appeared-after',
    weight: 0.5,
    exact: false,
    keep({ gpu, hints }, router) {
      const name = hints.appearedAfter?.get(gpu.address)
      return name === undefined ? undefined : router.name === name
    },
  },
]

/**
 * Finds the box of a GPU among `routers` (boxes only, no hosts). A GPU that is not behind a cable is in none. Steps
 * that would leave no box at all do not count, except that a GPU is never in a box of another controller's domain.
 */
export function joinEnclosure(
  topology: Topology,
  gpu: PciFunction,
  tunnel: TunnelPort | undefined,
  routers: readonly ThunderboltRouter[],
  hints: JoinHints = {},
): Join {
  const question: Question = { topology, gpu, tunnel, hints }
  let candidates = routers
  const evidence: Evidence[] = []
  for (const step of steps) {
    const kept = candidates.filter((router) => step.keep(question, router) !== false)
    if (kept.length === 0 && !step.exact) continue
    if (kept.length < candidates.length || confirms(step, question, kept)) {
      evidence.push({
        signal: step.signal,
        value: kept.map(({ name }) => name).join(', '),
        weight: step.weight,
        points: 'external',
      })
    }
    candidates = kept
  }
  if (candidates.length === 1) return { router: candidates[0], candidates, evidence }
  return { candidates, evidence }
}

/** A step that had something to say and agreed with what was left is worth naming, too. */
function confirms(step: Step, question: Question, kept: readonly ThunderboltRouter[]): boolean {
  const [only] = kept
  return kept.length === 1 && only !== undefined && step.signal !== 'authorized' && step.keep(question, only) === true
}

/** Serial number of the box's own switch: the closest Thunderbolt bridge above the card that tells one. */
function boxSerial({ topology, gpu, tunnel }: Question): string | undefined {
  const bridges = boxBridges(topology, gpu, tunnel)
  return bridges
    .reverse()
    .find((bridge) => bridge.details?.serial !== undefined && thunderboltBridgeOf(bridge) !== undefined)?.details
    ?.serial
}
