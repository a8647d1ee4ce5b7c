import { EGpuError, EGpuErrorCode, Transport } from '@egpu/core'
import type { Enclosure, LinkReport, Verdict } from '@egpu/core'
import { enclosuresOf, enclosureIdOf, portOf, xgMobileId } from './enclosure/enclosures.ts'
import type { JoinHints } from './enclosure/hints.ts'
import { joinAll } from './enclosure/join-all.ts'
import type { JoinedGpu } from './enclosure/join-all.ts'
import { keysOf } from './keys.ts'
import { linkOf } from './link/report.ts'
import { deathSignOf } from './liveness.ts'
import type { DeathSign } from './liveness.ts'
import type { PciNames } from './pci-names.ts'
import { gpusOf } from './topology/functions.ts'
import type { Topology } from './topology/types.ts'
import { judge } from './verdict/judge.ts'
import { overrideFor } from './verdict/override.ts'
import type { VerdictOverride } from './verdict/override.ts'

export interface SurveyOptions {
  readonly overrides?: readonly VerdictOverride[] | undefined
  readonly hints?: JoinHints | undefined
  readonly names?: PciNames | undefined
}

/** One GPU with everything that was worked out about it. */
export interface SurveyedGpu extends JoinedGpu {
  readonly key: string
  readonly name: string | undefined
  readonly verdict: Verdict
  readonly link: LinkReport | undefined
  readonly death: DeathSign | undefined
  /** Unique id of the box's router; of a dying GPU, the one it was in. */
  readonly enclosureUid?: string | undefined
  readonly enclosureId?: string | undefined
  readonly port?: string | undefined
}

/** A topology with the judgements: what findings, observations and the watcher start from. */
export interface Survey {
  readonly topology: Topology
  readonly gpus: readonly SurveyedGpu[]
  readonly enclosures: readonly Enclosure[]
}

/** Works out verdicts, boxes, links and keys. Pure: the same topology gives the same survey. */
export function surveyOf(topology: Topology, { overrides = [], hints = {}, names }: SurveyOptions = {}): Survey {
  const placed = joinAll(topology, gpusOf(topology), hints).map((joined) => ({ ...joined, ...placeOf(joined, hints) }))
  const keys = keysOf(
    placed.map((one) => ({ ...one, movable: one.tunnel !== undefined, before: hints.keys?.get(one.gpu.address) })),
  )
  const enclosures = enclosuresOf(topology)
  const gpus = placed.map((one, index): SurveyedGpu => {
    const { gpu, tunnel, join } = one
    const verdict = judge({ topology, gpu, tunnel }, { override: overrideFor(overrides, gpu), router: join.router })
    const inXgMobile = verdict.transport === Transport.XgMobile && enclosures.some(({ id }) => id === xgMobileId)
    return {
      ...one,
      key: keys[index] as string,
      name: gpu.vendorId === undefined || gpu.deviceId === undefined ? undefined : names?.(gpu.vendorId, gpu.deviceId),
      verdict,
      enclosureId: inXgMobile ? xgMobileId : one.enclosureId,
      link: linkOf(topology, one),
      death: deathSignOf(topology, one),
    }
  })
  return { topology, gpus, enclosures }
}

type Place = Pick<SurveyedGpu, 'enclosureUid' | 'enclosureId' | 'port' | 'slot'>

function placeOf({ gpu, join, slot }: JoinedGpu, hints: JoinHints): Place {
  const { router } = join
  if (router !== undefined) {
    return { enclosureUid: router.uniqueId, enclosureId: enclosureIdOf(router), port: portOf(router), slot }
  }
  const remembered = join.candidates.length === 0 ? hints.remembered?.get(gpu.address) : undefined
  if (remembered === undefined) return {}
  return {
    enclosureUid: remembered.uniqueId,
    enclosureId: remembered.uniqueId,
    port: remembered.port,
    slot: remembered.slot,
  }
}

/** GPUs that go when this router goes: those in its box and in every box chained behind it. */
export function gpusBehindRouter(survey: Survey, routerName: string): readonly SurveyedGpu[] {
  const { routers } = survey.topology.thunderbolt
  const behind = new Set([routerName])
  for (const router of [...routers].sort((a, b) => a.hops.length - b.hops.length)) {
    if (router.parent !== undefined && behind.has(router.parent)) behind.add(router.name)
  }
  return survey.gpus.filter(({ join }) => {
    const boxes = join.router === undefined ? join.candidates : [join.router]
    return boxes.length > 0 && boxes.every(({ name }) => behind.has(name))
  })
}

/** The GPU with this key. Throws `EGPU_DEVICE_NOT_FOUND`. */
export function findGpu(survey: Survey, key: string): SurveyedGpu {
  const found = survey.gpus.find((gpu) => gpu.key === key)
  if (found !== undefined) return found
  throw new EGpuError(EGpuErrorCode.DeviceNotFound, `no GPU has the key ${key}; list() names those there are`, {
    driver: 'linux',
    deviceId: key,
  })
}
