import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import type { CudaContext } from '../context.ts'
import { groupsOf } from '../processes/groups.ts'
import { hasEnded, readProcess } from '../processes/proc.ts'
import { askKernel, computingOn, memoryOf } from '../processes/survey.ts'
import { memberOf, namesOf } from './steps.ts'
import type { Member } from './steps.ts'

/**
 * Looks once more when all are locked and nobody can make a CUDA call any more: memory that was shared a moment ago
 * would make a checkpoint that cannot be restored, a program that joined the group would wait for ever for those who
 * stand still, and more memory than was noted might not fit where it has to go back to. Gives the members with what
 * they hold now. Rejects with `EGPU_NOT_SUPPORTED` or `EGPU_DEVICE_BUSY`.
 */
export async function secondLook(
  context: CudaContext,
  members: readonly Member[],
  { signal }: AbortOptions,
): Promise<readonly Member[]> {
  const pids = members.map(({ pid }) => pid)
  // A driver that cannot be asked: the first look has refused whoever has neighbours.
  const imports = (await askKernel(context, pids, signal)) ?? []
  const shared = imports.find(({ bytes }) => bytes > 0)
  if (shared !== undefined) {
    throw new EGpuError(
      EGpuErrorCode.NotSupported,
      `process ${shared.pid} was left alone: it has just opened ${shared.bytes} bytes of another process's GPU memory (CUDA IPC), which NVIDIA could not restore`,
      { driver: 'cuda' },
    )
  }
  const computing = await computingOn(context, { signal })
  const joined = joinedBy(
    context,
    pids,
    computing.map(({ pid }) => pid),
  )
  if (joined !== undefined) {
    throw new EGpuError(
      EGpuErrorCode.DeviceBusy,
      `${namesOf(members)}: process ${joined} has just joined the group, which is stopped as a whole or not at all; list the processes and try again`,
      { driver: 'cuda' },
    )
  }
  return members.map((member) => {
    const holdings = computing.filter(({ pid }) => pid === member.pid)
    const memory = memoryOf(holdings, (busId) => context.gpus.uuidOf(busId))
    const now = memory.length === 0 ? member : memberOf({ ...member, memory })
    if (now.bytes !== member.bytes) context.journal.holds(member, now.memory)
    return now
  })
}

/** Somebody who belongs to the group and is not among those that are stopped. */
function joinedBy({ procRoot }: CudaContext, own: readonly number[], computing: readonly number[]): number | undefined {
  const pids = [...new Set([...own, ...computing])].filter((pid) => !hasEnded(procRoot, pid))
  const groups = groupsOf(pids, (pid) => readProcess(procRoot, pid))
  return own.flatMap((pid) => groups.get(pid) ?? []).find((pid) => !own.includes(pid))
}
