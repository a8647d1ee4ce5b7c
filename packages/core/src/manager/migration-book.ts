import type { UnstampedEvent } from '../types/events.ts'
import type { DeviceTracker } from './device-tracker.ts'

/** Keeps a device `migrating` for as long as work is being moved off it, from what the migrator reports. */
export class MigrationBook {
  readonly #devices: DeviceTracker
  readonly #running = new Map<string, string>()

  constructor(devices: DeviceTracker) {
    this.#devices = devices
  }

  note(event: UnstampedEvent): void {
    switch (event.type) {
      case 'migration-started': {
        const { migrationId, from } = event.migration
        if (from?.deviceId === undefined || this.#running.has(migrationId)) return
        this.#running.set(migrationId, from.deviceId)
        this.#count(from.deviceId, 1)
        return
      }
      case 'migration-completed':
      case 'migration-failed': {
        const { migrationId } = event.migration
        const deviceId = this.#running.get(migrationId)
        if (deviceId === undefined) return
        this.#running.delete(migrationId)
        this.#count(deviceId, -1)
        return
      }
      default:
    }
  }

  #count(deviceId: string, by: 1 | -1): void {
    const device = this.#devices.tracked(deviceId)
    if (device === undefined) return
    device.migrations += by
    this.#devices.usageChanged(device)
  }
}
