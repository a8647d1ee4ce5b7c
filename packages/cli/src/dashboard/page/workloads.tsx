import type { JSX } from 'preact'
import type { DashboardState, TimelineEntry, WorkloadView } from '../protocol.ts'
import { bytesText } from '../../output/bytes-text.ts'
import { Programs } from './programs.tsx'

interface WorkloadsProps {
  readonly state: DashboardState
  readonly entries: readonly TimelineEntry[]
}

/** What runs, where, and what its last move cost; and what others have on the GPUs. */
export function Workloads({ state: { workloads, programs }, entries }: WorkloadsProps): JSX.Element {
  return (
    <section aria-labelledby="workloads">
      <h2 id="workloads">Workloads</h2>
      {workloads.length === 0 ? (
        <p class="dim">No work is in the care of a migrator here.</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Table of workloads">
          <table>
            <thead>
              <tr>
                <th scope="col">Workload</th>
                <th scope="col">State</th>
                <th scope="col">Where</th>
                <th scope="col">Steps done</th>
                <th scope="col">Last checkpoint</th>
                <th scope="col">Last move</th>
              </tr>
            </thead>
            <tbody>
              {workloads.map((workload) => (
                <Row
                  key={workload.id}
                  workload={workload}
                  move={entries.findLast(({ workloadId, rtoMs }) => workloadId === workload.id && rtoMs !== undefined)}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Programs view={programs} />
    </section>
  )
}

function Row({
  workload,
  move,
}: {
  readonly workload: WorkloadView
  readonly move: TimelineEntry | undefined
}): JSX.Element {
  const { id, state, where, progress, checkpoint } = workload
  return (
    <tr>
      <th scope="row">{id}</th>
      <td>{state}</td>
      <td>{where?.name ?? 'nowhere'}</td>
      <td class="number">{progress.toLocaleString()}</td>
      <td>
        {checkpoint === undefined
          ? 'none yet'
          : `step ${checkpoint.progress.toLocaleString()}, ${bytesText(checkpoint.bytes)}`}
      </td>
      <td>
        {move === undefined ? 'none yet' : `${Math.round(move.rtoMs ?? 0)} ms, ${move.lostProgress ?? 0} steps redone`}
      </td>
    </tr>
  )
}
