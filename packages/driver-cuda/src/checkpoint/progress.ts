import type { Clock } from '@egpu/core'
import { residentBytes } from '../processes/proc.ts'
import type { Member } from './steps.ts'
import type { StepName } from './results.ts'

/** How far a step is. Bytes and time are estimates from how the process's own memory grows or shrinks. */
export interface MoveProgress {
  readonly pid: number
  readonly name: string
  readonly step: StepName
  readonly doneBytes: number
  readonly totalBytes: number
  /** Absent until there is something to go by. */
  readonly remainingMs?: number | undefined
}

export type OnProgress = (progress: MoveProgress) => void

const everyMs = 250

/** Reports while `work` runs. The driver tells nothing before it is done, but the state lands in the process's memory. */
export async function withProgress<T>(
  { member, step, procRoot, clock }: { member: Member; step: StepName; procRoot: string; clock: Clock },
  onProgress: OnProgress | undefined,
  work: () => Promise<T>,
): Promise<T> {
  if (onProgress === undefined) return await work()
  const { pid, name, bytes: totalBytes } = member
  const startedAt = clock.now()
  const before = residentBytes(procRoot, pid) ?? 0
  const report = (doneBytes: number): void => {
    const elapsed = clock.now() - startedAt
    const remainingMs = doneBytes > 0 ? (elapsed / doneBytes) * (totalBytes - doneBytes) : undefined
    onProgress({ pid, name, step, doneBytes, totalBytes, remainingMs })
  }
  report(0)
  const end = new AbortController()
  const watch = async (): Promise<void> => {
    for (;;) {
      await clock.sleep(everyMs, { signal: end.signal })
      report(Math.min(totalBytes, Math.abs((residentBytes(procRoot, pid) ?? before) - before)))
    }
  }
  const watching = watch().catch(() => undefined)
  try {
    const result = await work()
    report(totalBytes)
    return result
  } finally {
    end.abort()
    await watching
  }
}
