import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import { CudaContext } from '../context.ts'
import type { CudaOptions } from '../context.ts'
import { readProcess } from '../processes/proc.ts'
import type { Journal, JournalEntry } from './journal.ts'
import { ProcessState, stepError } from './results.ts'
import { Steps, memberOf } from './steps.ts'

/** What became of a process that was noted in the journal. */
export interface Recovery {
  readonly pid: number
  readonly name: string
  /**
   * `running`: it runs again, or did all along. `parked`: it is parked as it was meant to be; resume it when you like.
   * `ended`: there is no such process any more. `busy`: another process is at it. `held`: it could not be freed;
   * `error` says why.
   */
  readonly outcome: 'running' | 'parked' | 'ended' | 'busy' | 'held'
  readonly error?: unknown
}

/**
 * Sets everybody to work again whom a crash of ours left locked or half parked. What is parked on purpose stays so.
 * Asks the driver for the state of each, so it may be called at any time and any number of times.
 */
export async function recoverCudaProcesses(options: CudaOptions & AbortOptions = {}): Promise<readonly Recovery[]> {
  const context = new CudaContext(options)
  try {
    return await recoverIn(context, () => true, options)
  } finally {
    await context.release()
  }
}

export async function recoverIn(
  context: CudaContext,
  concerns: (entry: JournalEntry) => boolean,
  { signal }: AbortOptions,
): Promise<readonly Recovery[]> {
  const { journal, cuda } = context
  let hung: unknown
  const initialized = async (steps: Steps): Promise<void> => {
    // Waiting for it once is enough.
    if (hung !== undefined) throw hung
    await steps.initialize({ signal }).catch((error: unknown) => {
      if (EGpuError.is(error, EGpuErrorCode.Timeout)) hung = error
      throw error
    })
  }
  const recoveries: Recovery[] = []
  for (const entry of journal.entries().filter(concerns)) {
    signal?.throwIfAborted()
    // A step that hangs takes its host along: the next one gets another.
    const recovery = await cuda.use(undefined, async (host) => {
      const steps = new Steps(host, context.stepsOptions)
      return await recover(context, entry, steps, () => initialized(steps))
    })
    signal?.throwIfAborted()
    recoveries.push(recovery)
  }
  return recoveries
}

async function recover(
  { journal, procRoot }: CudaContext,
  entry: JournalEntry,
  steps: Steps,
  initialize: () => Promise<void>,
): Promise<Recovery> {
  const { pid, name, startTime } = entry
  const member = memberOf({ pid, startTime, name, memory: entry.gpus })
  const hasEnded = (): boolean => readProcess(procRoot, pid)?.startTime !== startTime
  const ended = (): Recovery => {
    journal.forget(entry)
    return { pid, name, outcome: 'ended' }
  }
  if (hasEnded()) return ended()
  if (journal.isOwned(entry)) return { pid, name, outcome: 'busy' }
  const isParked = async ({ goal }: JournalEntry): Promise<boolean> =>
    goal === 'parked' && (await steps.state(member)) === ProcessState.Checkpointed
  try {
    await initialize()
    if (await isParked(entry)) return { pid, name, outcome: 'parked' }
    const before = claimed(journal, entry)
    if (before !== undefined && (await isParked(before))) {
      journal.unclaim(entry, before)
      return { pid, name, outcome: 'parked' }
    }
    await steps.settleRunning(member)
    journal.forget(entry)
    return { pid, name, outcome: 'running' }
  } catch (error) {
    if (hasEnded()) return ended()
    if (EGpuError.is(error, EGpuErrorCode.DeviceBusy)) return { pid, name, outcome: 'busy' }
    disown(journal, entry)
    return {
      pid,
      name,
      outcome: 'held',
      error: stepError(error, `${name} (pid ${pid}) could not be set to work again`),
    }
  }
}

/** What was noted when it became ours. Where nothing can be noted, it is set to work all the same. */
function claimed(journal: Journal, entry: JournalEntry): JournalEntry | undefined {
  try {
    return journal.claim(entry)
  } catch (error) {
    if (EGpuError.is(error, EGpuErrorCode.DeviceBusy)) throw error
    return entry
  }
}

function disown(journal: Journal, entry: JournalEntry): void {
  try {
    journal.disown(entry)
  } catch {
    // Then it is free for others once we have ended.
  }
}
