import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '@egpu/core'
import type { Clock } from '@egpu/core'
import type { OpenUeventSource } from './source.ts'
import { UeventSourceKind } from './source.ts'

export interface PollSourceOptions {
  readonly sysfsRoot?: string | undefined
  readonly intervalMs?: number | undefined
  readonly clock?: Clock | undefined
}

/** Directories that gain or lose an entry with every plug. Listing them opens no device. */
const watchedDirectories = ['bus/thunderbolt/devices', 'bus/pci/devices', 'class/drm']

/**
 * Looks every second whether anything changed: the last resort, which works wherever sysfs can be read.
 * `fs.watch` does not work on sysfs, so it has to look.
 */
export function pollSource(options: PollSourceOptions = {}): OpenUeventSource {
  const { sysfsRoot = '/sys', intervalMs = 1000, clock = systemClock } = options
  return async (listener, { signal } = {}) => {
    const stopping = new AbortController()
    let last = await fingerprint(sysfsRoot)
    signal?.throwIfAborted()
    const look = async (): Promise<void> => {
      while (!stopping.signal.aborted) {
        await clock.sleep(intervalMs, { signal: stopping.signal })
        const now = await fingerprint(sysfsRoot)
        if (now !== last && !stopping.signal.aborted) listener({ type: 'changed' })
        last = now
      }
    }
    const looking = look().catch((error: unknown) => {
      if (!stopping.signal.aborted) listener({ type: 'failed', reason: String(error) })
    })
    const close = (): Promise<void> => {
      stopping.abort()
      return looking
    }
    return { kind: UeventSourceKind.Poll, close, [Symbol.asyncDispose]: close }
  }
}

/** The kernel's count of events, where it is readable, and the names of what is there. */
async function fingerprint(sysfsRoot: string): Promise<string> {
  const seqnum = await readFile(join(sysfsRoot, 'kernel/uevent_seqnum'), 'latin1').catch(() => '')
  const listings = await Promise.all(
    watchedDirectories.map((directory) => readdir(join(sysfsRoot, directory)).catch((): string[] => [])),
  )
  return JSON.stringify([seqnum, ...listings.map((names) => names.sort())])
}
