import type { Enclosure } from '../types/enclosure.ts'
import type { HealthSample } from '../types/health.ts'
import type { DriverSnapshot, DeviceObservation } from './observation.ts'
import type { Finding } from '../types/finding.ts'

/**
 * Why a driver looked at everything afresh: the watch began, the kernel dropped messages, a slow safety check, the
 * machine woke up, or the driver asked for it itself.
 */
export type ResyncReason = 'started' | 'overflow' | 'safety-rescan' | 'resumed' | 'requested'

/**
 * What `watch()` yields. Every event names the driver's own keys; core turns them into the application's events.
 * Departures are never delayed or merged with an arrival that follows.
 */
export type DriverEvent =
  /** Everything, afresh. Core works out the differences itself. */
  | { readonly type: 'resync'; readonly reason: ResyncReason; readonly snapshot: DriverSnapshot }
  /** A device appeared, or something about it changed: the whole observation, not a difference. */
  | { readonly type: 'device-observed'; readonly device: DeviceObservation }
  /** First sign that the device goes. */
  | { readonly type: 'device-leaving'; readonly key: string; readonly reason: string }
  /** Gone or dead without warning; a `device-removed` may follow late or never. */
  | { readonly type: 'device-lost'; readonly key: string; readonly reason: string }
  /** Still listed, but it does not answer and will not. */
  | { readonly type: 'device-wedged'; readonly key: string; readonly reason: string }
  | { readonly type: 'device-removed'; readonly key: string; readonly graceful: boolean }
  | { readonly type: 'enclosure-observed'; readonly enclosure: Enclosure }
  | { readonly type: 'enclosure-removed'; readonly id: string }
  | { readonly type: 'health-sampled'; readonly key: string; readonly sample: HealthSample }
  /** Replaces all findings of this driver. */
  | { readonly type: 'findings-observed'; readonly findings: readonly Finding[] }
