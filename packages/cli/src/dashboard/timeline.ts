import type { EGpuEvent } from '@egpu/core'
import type { MeshEvent } from '@egpu/mesh'
import { meshEventText } from '../output/mesh-event-text.ts'
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

/** What happened, before it has its place and time. */
export type News = Omit<TimelineEntry, 'seq' | 'at'>

/** An event of this machine's devices and workloads as the timeline shows it. */
export function newsOf(event: EGpuEvent): News {
  const migration = 'migration' in event ? event.migration : undefined
  return {
    type: event.type,
    text: eventText(event),
    tone: event.type === 'disconnected' && event.graceful ? 'good' : (tones[event.type] ?? 'plain'),
    deviceId: 'device' in event ? event.device.id : undefined,
    workloadId: migration?.workloadId ?? ('workloadId' in event ? event.workloadId : undefined),
    rtoMs: event.type === 'migration-completed' ? event.migration.rtoMs : undefined,
    lostProgress: event.type === 'migration-completed' ? event.migration.lostProgress : undefined,
  }
}

const meshTones: Partial<Record<MeshEvent['type'], News['tone']>> = {
  'peer-connected': 'good',
  'link-up': 'good',
  'link-changed': 'busy',
  'link-down': 'bad',
  'peer-lost': 'bad',
}

/** An event of the mesh as the timeline shows it; `undefined` for what strangers can cause and for measurements. */
export function newsOfMesh(event: MeshEvent): News | undefined {
  const tone = meshTones[event.type]
  const text = tone === undefined ? undefined : meshEventText(event)
  return tone === undefined || text === undefined ? undefined : { type: event.type, text, tone }
}
