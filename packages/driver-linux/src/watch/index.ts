import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AbortOptions, Clock } from '@egpu/core'
import type { DriverSnapshot, EventQueue, DriverEvent } from '@egpu/core/driver'
import type { Survey } from '../survey.ts'
import { defaultSources } from './open-source.ts'
import { absentDevices } from './presence.ts'
import type { OpenUeventSource, SourceMessage } from './source.ts'
import { UeventSourceKind } from './source.ts'
import type { WatchTimes } from './state.ts'
import { viewOf } from './view.ts'
import { watchMachine } from './watch.ts'
import type { EventSourceStatus } from './watch.ts'

/** The machine that a watch is about, and where its news come from. */
export interface LinuxWatchContext {
  readonly sysfsRoot: string
  readonly procRoot?: string | undefined
  readonly clock: Clock
  /** Reads everything, passively. */
  survey(options: AbortOptions): Promise<{ readonly survey: Survey; readonly snapshot: DriverSnapshot }>
  /** Instead of the kernel and its fallbacks: for recorded machines. */
  readonly eventSource?: OpenUeventSource | undefined
  /** Told whenever a watch begins to use a source. */
  onSource?(status: EventSourceStatus): void
  onRemoval?(listener: (key: string, expected: boolean) => void): () => void
  /** Told of everything the source says, before it is judged. */
  onSourceMessage?(message: SourceMessage, atMs: number): void
  /** Told of every event before anybody reads it. */
  onEvent?(event: DriverEvent): void
  /** The watch is over, however it ended. */
  onEnd?(): void
  readonly safetyRescanMs?: number | undefined
  readonly times?: Partial<WatchTimes> | undefined
}

/** `watch()` of the Linux driver. */
export function watchLinux(context: LinuxWatchContext, options: Required<AbortOptions>): EventQueue<DriverEvent> {
  const { sysfsRoot, procRoot, eventSource } = context
  const seqnumPath = join(sysfsRoot, 'kernel/uevent_seqnum')
  return watchMachine(
    {
      clock: context.clock,
      safetyRescanMs: context.safetyRescanMs,
      times: context.times,
      sources:
        eventSource === undefined ? defaultSources(context) : [{ kind: UeventSourceKind.Injected, open: eventSource }],
      async look(lookOptions) {
        const seqnum = readNumber(seqnumPath)
        const { survey, snapshot } = await context.survey(lookOptions)
        return viewOf(survey, snapshot, seqnum)
      },
      absentOf: (keys, view) => absentDevices(sysfsRoot, keys, view),
      uptimeMs: () => (procRoot === undefined ? undefined : readUptimeMs(join(procRoot, 'uptime'))),
      onSource: (status) => context.onSource?.(status),
      onSourceMessage: (message, atMs) => context.onSourceMessage?.(message, atMs),
      onEvent: (event) => context.onEvent?.(event),
      onEnd: () => context.onEnd?.(),
      onRemoval: (listener) => context.onRemoval?.(listener) ?? (() => {}),
    },
    options,
  )
}

/** Seconds since boot, suspended time included (Documentation/filesystems/proc.rst). */
function readUptimeMs(path: string): number | undefined {
  const seconds = readNumber(path)
  return seconds === undefined ? undefined : seconds * 1000
}

function readNumber(path: string): number | undefined {
  try {
    const value = Number.parseFloat(readFileSync(path, 'latin1'))
    return Number.isFinite(value) ? value : undefined
  } catch {
    return undefined
  }
}
