import type { EGpuEvent } from '@egpu/core'
import { deviceName } from './device-text.ts'
import { plain } from './text.ts'

/** One event as a sentence, without its time. */
export function eventText(event: EGpuEvent): string {
  return plain(sentence(event))
}

function sentence(event: EGpuEvent): string {
  switch (event.type) {
    case 'enclosure-connected':
    case 'enclosure-changed':
    case 'enclosure-disconnected':
      return `${event.type}: ${event.enclosure.name ?? event.enclosure.id}`
    case 'leaving':
    case 'lost':
    case 'wedged':
      return `${event.type}: ${deviceName(event.device)}: ${event.reason}`
    case 'disconnected':
      return `disconnected${event.graceful ? '' : ' without warning'}: ${deviceName(event.device)}`
    case 'returned':
      return `returned: ${deviceName(event.device)}, after ${(event.awayMs / 1_000).toFixed(1)} s`
    case 'link-speed-changed':
      return `link-speed-changed: ${deviceName(event.device)}: ${speed(event.before)} to ${speed(event.after)}`
    case 'power-state-changed':
      return `power-state-changed: ${deviceName(event.device)}: ${event.before ?? 'unknown'} to ${event.after ?? 'unknown'}`
    case 'health-changed':
      return `health-changed: ${deviceName(event.device)}: ${event.after.level}, score ${event.after.score?.toFixed(0) ?? 'unknown'}`
    case 'migration-started':
      return `migration-started: ${event.migration.workloadId} off ${event.migration.from?.name ?? 'nowhere'} (${event.migration.reason})`
    case 'migration-step':
      return `migration-step: ${event.migration.workloadId}: ${event.step}`
    case 'migration-completed':
      return `migration-completed: ${event.migration.workloadId} on ${event.migration.to?.name ?? 'nowhere'} after ${event.migration.rtoMs.toFixed(0)} ms, ${event.migration.lostProgress} steps to redo`
    case 'migration-failed':
    case 'checkpoint-failed':
    case 'driver-failed':
      return `${event.type}: ${event.error.message}`
    case 'checkpoint-saved':
      return `checkpoint-saved: ${event.workloadId} at step ${event.progress}, ${event.bytes} bytes`
    case 'findings-changed':
      return `findings-changed: ${event.findings.length === 0 ? 'none' : event.findings.map(({ code }) => code).join(', ')}`
    case 'resynced':
      return `resynced: ${event.driver} (${event.reason})`
    case 'listener-failed':
      return `listener-failed: ${event.event}: ${String(event.error)}`
    case 'health-sampled':
    case 'gpu-present':
    case 'connected':
    case 'ready':
    case 'changed':
      return `${event.type}: ${deviceName(event.device)}`
  }
}

function speed(link: EGpuEvent<'link-speed-changed'>['before']): string {
  const trained = link?.trained?.toDevice
  return trained === undefined ? 'unknown' : `${trained.lanes * trained.gbpsPerLane} Gb/s`
}
