import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { TimelineEntry } from '../protocol.ts'
import { clockText } from './words.ts'

/** Lines drawn at most; more are not read. */
const shown = 200

const filters = {
  everything: () => true,
  'plug, loss and moves': ({ tone }: TimelineEntry) => tone !== 'plain',
  'moves only': ({ type }: TimelineEntry) => type.startsWith('migration'),
} as const
type Filter = keyof typeof filters

interface TimelineProps {
  readonly entries: readonly TimelineEntry[]
  readonly received: number
  readonly missed: number
}

/** What happened, newest first. */
export function Timeline({ entries, received, missed }: TimelineProps): JSX.Element {
  const [filter, setFilter] = useState<Filter>('plug, loss and moves')
  const lines = entries.filter(filters[filter]).slice(-shown).toReversed()
  return (
    <section aria-labelledby="timeline">
      <h2 id="timeline">Timeline</h2>
      <div class="controls">
        <label>
          Show{' '}
          <select value={filter} onChange={({ currentTarget }) => setFilter(currentTarget.value as Filter)}>
            {Object.keys(filters).map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <span class="dim" id="event-count" data-received={received} data-missed={missed}>
          {received.toLocaleString()} events{missed > 0 && `, ${missed.toLocaleString()} not kept`}
        </span>
      </div>
      <ol class="timeline" tabIndex={0} aria-label="Events, newest first">
        {lines.map(({ seq, at, text, tone, type, rtoMs, lostProgress }) => (
          <li key={seq} class={tone} data-type={type}>
            <time dateTime={new Date(at).toISOString()}>{clockText(at)}</time>
            <span>
              {text}
              {rtoMs !== undefined && (
                <span class="badge">
                  back after {Math.round(rtoMs)} ms, {lostProgress ?? 0} steps redone
                </span>
              )}
            </span>
          </li>
        ))}
      </ol>
      <p class="visually-hidden" aria-live="polite">
        {entries.findLast(({ tone }) => tone === 'bad' || tone === 'good')?.text}
      </p>
    </section>
  )
}
