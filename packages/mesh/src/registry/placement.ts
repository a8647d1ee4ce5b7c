import { createHash } from 'node:crypto'
import type { WorkloadNeeds } from '@egpu/core'
import { incompatibility } from '@egpu/migrator'
import { assertKind, assertOptions, kind, text } from '../arguments.ts'
import { asShape } from '../shape.ts'
import type { RegisteredHost } from './host-registry.ts'

const hostList = kind(
  'a list of hosts with nodeId and targets',
  (value) =>
    Array.isArray(value) &&
    value.every((each: unknown) => {
      const host = asShape(each)
      return typeof host?.['nodeId'] === 'string' && Array.isArray(host['targets'])
    }),
)
const needs = kind('what a workload needs (`workload.needs`)', (value) => Array.isArray(asShape(value)?.['runtimes']))

/**
 * The hosts that can take some work, in the order to try them: the first is to run it, the second to stand by. Whoever asks
 * gets the same order from the same hosts, without a word between them, and different work gets different hosts. When a
 * host comes or goes, only the work it stood before, or ran, changes its place (rendezvous hashing).
 */
export function placement(
  hosts: readonly RegisteredHost[],
  work: { readonly workloadId: string; readonly needs: WorkloadNeeds },
): readonly RegisteredHost[] {
  assertKind('hosts', hosts, hostList)
  assertOptions('work', work, { workloadId: text, needs })
  const fits = ({ targets }: RegisteredHost): boolean =>
    targets.some((target) => incompatibility(work.needs, target) === undefined)
  return hosts
    .filter(fits)
    .map((host) => ({ host, weight: weightOf(host.nodeId, work.workloadId) }))
    .toSorted((a, b) => (a.weight < b.weight ? 1 : -1))
    .map(({ host }) => host)
}

function weightOf(nodeId: string, workloadId: string): string {
  return createHash('sha256').update(`${nodeId}\n${workloadId}`).digest('hex')
}
