import { existsSync, watch as watchFile } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { abandonable, EGpuError, EGpuErrorCode } from '@egpu/core'
import { EventQueue } from '@egpu/core/driver'
import type { DeviceObservation, DriverEvent, DriverSnapshot, EGpuDriver } from '@egpu/core/driver'

/** One line of the journal: this GPU came (`present`) or went. Lines are only ever added, so no change is missed. */
type Line = { readonly serial: string; readonly name?: string; readonly present: boolean }

/** Shows the GPUs that a journal file tells of, one JSON object per line. */
export function journalDriver(path: string): EGpuDriver {
  const closing = new AbortController()
  const close = async (): Promise<void> => closing.abort()
  const read = async (signal?: AbortSignal): Promise<Line[]> => {
    if (closing.signal.aborted) throw new EGpuError(EGpuErrorCode.Closed, 'the journal driver was closed')
    // The last piece is empty, or a line that is still being written.
    const lines = (await abandonable(readFile(path, 'utf8'), signal)).split('\n').slice(0, -1)
    return lines.map((line) => JSON.parse(line) as Line)
  }
  const watch: EGpuDriver['watch'] = ({ signal }) => {
    const end = AbortSignal.any([closing.signal, ...(signal ? [signal] : [])])
    // Subscribed before the first look, so nothing falls in between; one look after the other.
    const file = watchFile(path, () => void (looks = looks.then(look).catch(fail)))
    const queue = new EventQueue<DriverEvent>({ signal: end, onEnd: () => file.close() })
    const fail = (error: unknown): void => queue.fail(error)
    let told: number | undefined
    const look = async (): Promise<void> => {
      const lines = await read()
      if (told === undefined) queue.push({ type: 'resync', reason: 'started', snapshot: snapshotOf(lines) })
      else for (const line of lines.slice(told)) queue.push(eventOf(line))
      told = lines.length
    }
    let looks = look().catch(fail)
    return queue
  }
  return {
    specVersion: 1,
    name: 'journal',
    capabilities: {
      hotplug: true,
      verdict: false,
      health: false,
      safeRemoval: false,
      passthrough: false,
      runtimes: [],
    },
    probe: async ({ signal } = {}) => {
      signal?.throwIfAborted()
      return existsSync(path) ? { usable: true } : { usable: false, reason: `There is no journal ${path}.` }
    },
    list: async ({ signal } = {}) => snapshotOf(await read(signal)),
    watch,
    close,
    [Symbol.asyncDispose]: close,
  }
}

function observe({ serial, name }: Line): DeviceObservation {
  return { key: `journal:${serial}`, identity: { serial }, gpu: { name }, stage: 'ready' }
}

function eventOf(line: Line): DriverEvent {
  const device = observe(line)
  if (line.present) return { type: 'device-observed', device }
  return { type: 'device-removed', key: device.key, graceful: false }
}

function snapshotOf(lines: readonly Line[]): DriverSnapshot {
  const present = [...new Map(lines.map((line) => [line.serial, line])).values()].filter((line) => line.present)
  return { devices: present.map(observe), enclosures: [], findings: [] }
}
