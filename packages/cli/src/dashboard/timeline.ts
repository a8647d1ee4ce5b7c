import type { EGpuEvent } from '@egpu/core'
import { eventText } from '../output/event-text.ts'
import type { TimelineEntry } from './protocol.ts'

const tones: Partial<Record<EGpuEvent['type'], TimelineEntry['tone']>> = {
  connected: 'good',
  ready: 'good',
  returned: 'good',
  'migration-completed': 'good',
  'enclosure-connected': 'good',
  'enclosure-disconnected': 'bad',
  disconnected: 'bad',
  leaving: 'bad',
  lost: 'bad',
  wedged: 'bad',
  'migration-failed': 'bad',
  'checkpoint-failed': 'bad',
  'driver-failed': 'bad',
  'migration-started': 'busy',
  'health-changed': 'busy',
  'link-speed-changed': 'busy',
}

/** An event as the timeline shows it. */
export function timelineEntry(event: EGpuEvent, seq: number, at: number): TimelineEntry {
  const migration = 'migration' in event ? event.migration : undefined
  return {
    seq,
    at,
    type: event.type,
    text: eventText(event),
    tone: event.type === 'disconnected' && event.graceful ? 'good' : (tones[event.type] ?? 'plain'),
    deviceId: 'device' in event ? event.device.id : undefined,
    workloadId: migration?.workloadId ?? ('workloadId' in event ? event.workloadId : undefined),
    rtoMs: event.type === 'migration-completed' ? event.migration.rtoMs : undefined,
    lostProgress: event.type === 'migration-completed' ? event.migration.lostProgress : undefined,
  }
}
