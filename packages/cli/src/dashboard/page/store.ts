import { useEffect, useState } from 'preact/hooks'
import type { DashboardState, SamplePoint, StreamMessages, TimelineEntry } from '../protocol.ts'

/** Entries a page keeps; the machine keeps more. */
const entriesKept = 2_000

/** Ten minutes at one sample a second. */
const samplesKept = 600

export interface PageModel {
  readonly connected: boolean
  readonly state: DashboardState | undefined
  /** Newest last. */
  readonly entries: readonly TimelineEntry[]
  /** Entries seen since this page was opened, kept or not. */
  readonly received: number
  /** Entries the server no longer had when this page asked for them. */
  readonly missed: number
  readonly samples: ReadonlyMap<string, readonly SamplePoint[]>
}

let model: PageModel = {
  connected: false,
  state: undefined,
  entries: [],
  received: 0,
  missed: 0,
  samples: new Map(),
}
let boot: string | undefined
let lastSeq = 0
const listeners = new Set<() => void>()

function change(part: Partial<PageModel>): void {
  model = { ...model, ...part }
  for (const listener of listeners) listener()
}

/** Follows the server for as long as the page is open; the browser connects again by itself. */
export function follow(): void {
  const source = new EventSource('/api/stream')
  const on = <K extends keyof StreamMessages>(name: K, take: (data: StreamMessages[K]) => void): void =>
    source.addEventListener(name, (message) => take(JSON.parse(message.data as string) as StreamMessages[K]))
  source.addEventListener('open', () => change({ connected: true }))
  source.addEventListener('error', () => change({ connected: false }))
  on('history', (history) => {
    if (boot !== history.boot) {
      boot = history.boot
      lastSeq = (history.entries[0]?.seq ?? 1) - 1
      change({ entries: [], samples: new Map() })
    }
    take(history.entries)
    change({ samples: withSamples(new Map(), history.samples) })
  })
  on('state', (state) => change({ state }))
  on('entries', take)
  on('samples', (samples) => change({ samples: withSamples(new Map(model.samples), samples) }))
}

function take(entries: readonly TimelineEntry[]): void {
  const fresh = entries.filter(({ seq }) => seq > lastSeq)
  const [first] = fresh
  const newest = fresh.at(-1)
  if (first === undefined || newest === undefined) return
  const missed = first.seq - lastSeq - 1
  lastSeq = newest.seq
  change({
    entries: [...model.entries, ...fresh].slice(-entriesKept),
    received: model.received + fresh.length,
    missed: model.missed + missed,
  })
}

function withSamples(
  kept: Map<string, readonly SamplePoint[]>,
  samples: readonly SamplePoint[],
): ReadonlyMap<string, readonly SamplePoint[]> {
  for (const sample of samples)
    kept.set(sample.deviceId, [...(kept.get(sample.deviceId) ?? []), sample].slice(-samplesKept))
  return kept
}

/** The page as it is now; the component is drawn again when it changes. */
export function useModel(): PageModel {
  const [, redraw] = useState(0)
  useEffect(() => {
    const listener = (): void => redraw((count) => count + 1)
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }, [])
  return model
}
