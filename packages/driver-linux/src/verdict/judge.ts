import { Transport } from '@egpu/core'
import type { Evidence, Verdict } from '@egpu/core'
import { tunnelPortOf } from '../data/tunnel-ports.ts'
import type { Usb4Port, ThunderboltRouter } from '../topology/types.ts'
import { combine } from './combine.ts'
import type { VerdictOverride } from './override.ts'
import { cardTop, signals } from './signals.ts'
import type { Subject } from './signals.ts'

/** Less belief than this is no conclusion. */
const leastBelief = 0.25

export interface JudgeOptions {
  readonly override?: VerdictOverride | undefined
  /** The box it was found to be in. Found after the topology alone was judged, and corroborates it. */
  readonly router?: ThunderboltRouter | undefined
}

/** Whether a GPU is external, how sure that is, and every reason that was looked at. */
export function judge(subject: Subject, { override, router }: JudgeOptions = {}): Verdict {
  const evidence = signals.flatMap((signal) => signal(subject) ?? [])
  if (router !== undefined) evidence.push(routerEvidence(router))
  if (override !== undefined) return overridden(override, subject, router, evidence)
  const { external, internal } = combine(evidence)
  if (Math.max(external, internal) < leastBelief || external === internal) {
    return { conclusion: 'unknown', confidence: 0, evidence }
  }
  if (internal > external) return { conclusion: 'internal', confidence: round(internal), evidence }
  return {
    conclusion: 'external',
    confidence: round(external),
    transport: transportOf(subject, router, evidence),
    evidence,
  }
}

function routerEvidence(router: ThunderboltRouter): Evidence {
  return {
    signal: 'thunderbolt-router',
    value: router.uniqueId ?? router.name,
    weight: 0.5,
    points: 'external',
    source: router.path,
  }
}

function overridden(
  override: VerdictOverride,
  subject: Subject,
  router: ThunderboltRouter | undefined,
  evidence: readonly Evidence[],
): Verdict {
  const said: Evidence = {
    signal: 'override',
    value: override.verdict,
    weight: 1,
    points: override.verdict,
    source: 'override file',
  }
  const all = [said, ...evidence]
  if (override.verdict === 'internal') return { conclusion: 'internal', confidence: 1, evidence: all }
  const transport = override.transport ?? transportOf(subject, router, evidence)
  return { conclusion: 'external', confidence: 1, transport, evidence: all }
}

function transportOf(
  { topology, gpu, tunnel }: Subject,
  router: ThunderboltRouter | undefined,
  evidence: readonly Evidence[],
): Transport {
  const seen = new Set(evidence.map(({ signal }) => signal))
  if (tunnel !== undefined) {
    const port = topology.pci.get(tunnel.address)
    const spoken = router === undefined ? undefined : protocolOf(router, topology.thunderbolt.ports)
    return spoken ?? (port === undefined ? undefined : tunnelPortOf(port)?.protocol) ?? Transport.Thunderbolt
  }
  if (seen.has('thunderbolt-switch')) return Transport.Thunderbolt
  if (seen.has('xg-mobile-connected')) return Transport.XgMobile
  // Four lanes tell OCuLink or M.2 from ExpressCard and mini PCI Express, which have one.
  if (seen.has('card-maker-on-portable') && cardTop(topology, gpu).details?.link?.lanes !== 1) return Transport.OcuLink
  return Transport.Unknown
}

/** What is spoken on the cable: the port says it since Linux 5.14; before that, generation 4 means USB4. */
function protocolOf(router: ThunderboltRouter, ports: readonly Usb4Port[]): Transport | undefined {
  const link = ports.find(({ router: name, port }) => name === router.parent && port === router.hops.at(-1))?.link
  if (link === 'usb4') return Transport.Usb4
  if (link === 'tbt') return Transport.Thunderbolt
  if (router.generation === undefined) return undefined
  return router.generation >= 4 ? Transport.Usb4 : Transport.Thunderbolt
}

function round(confidence: number): number {
  return Math.round(confidence * 100) / 100
}
