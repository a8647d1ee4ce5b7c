/** What the server tells the page. Both sides are built from this file. */
import type { DisconnectPlan, EGpuDevice, Enclosure, Finding, HealthScore } from '@egpu/core'
import type { MeshPeer } from '@egpu/mesh'

/** Everything the page draws, apart from what grows with time. Sent whole whenever it changed. */
export interface DashboardState {
  readonly host: { readonly name: string; readonly simulated: boolean }
  readonly devices: readonly EGpuDevice[]
  readonly enclosures: readonly Enclosure[]
  readonly findings: readonly Finding[]
  readonly drivers: readonly { readonly name: string; readonly state: string; readonly reason?: string | undefined }[]
  readonly health: Readonly<Record<string, HealthScore>>
  readonly workloads: readonly WorkloadView[]
  readonly programs: ProgramsView
  /** Absent while this host is in no mesh. */
  readonly mesh?: MeshView | undefined
  /** The simulator's cables, plugged in or not; empty on a real machine. */
  readonly cables: readonly CableView[]
}

export interface WorkloadView {
  readonly id: string
  readonly state: string
  readonly where?: { readonly name: string; readonly deviceId?: string | undefined } | undefined
  readonly progress: number
  readonly checkpoint?: { readonly progress: number; readonly bytes: number } | undefined
}

/** Programs that somebody else started on NVIDIA GPUs, or why they are not known. */
export interface ProgramsView {
  readonly programs: readonly ProgramView[]
  readonly problem: string | undefined
}

export interface ProgramView {
  readonly pid: number
  readonly name: string
  readonly command: string
  readonly user: string | undefined
  readonly state: string
  readonly memory: readonly { readonly gpu: string; readonly bytes: number | undefined }[]
  /** Why it cannot be parked or moved; empty when it can. */
  readonly obstacles: readonly string[]
}

export interface MeshView {
  readonly peers: readonly MeshPeer[]
  /** Hosts on the cables that are not paired with this one. */
  readonly strangers: number
  readonly findings: readonly Finding[]
  /** Why the mesh could not be joined. */
  readonly problem: string | undefined
}

/** What the eject button would do, also to the programs that use the GPU. */
export type EjectPlan = DisconnectPlan & {
  readonly programs: readonly { readonly text: string; readonly stays: boolean }[]
}

export interface CableView {
  /** Id of the enclosure at its far end. */
  readonly id: string
  readonly name: string
  readonly plugged: boolean
  readonly slowed: boolean
}

export const cableActions = ['pull', 'plug', 'slow', 'restore', 'heat'] as const
export type CableAction = (typeof cableActions)[number]

/** One line of the timeline. */
export interface TimelineEntry {
  /** Counts up from 1 without a gap for as long as the server runs. */
  readonly seq: number
  /** Milliseconds since 1970. */
  readonly at: number
  readonly type: string
  readonly text: string
  readonly tone: 'good' | 'bad' | 'busy' | 'plain'
  readonly deviceId?: string | undefined
  readonly workloadId?: string | undefined
  /** Of a finished migration: how long the work stood still, and what had to be done again. */
  readonly rtoMs?: number | undefined
  readonly lostProgress?: number | undefined
}

/** The readings of one device at one moment. */
export interface SamplePoint {
  readonly at: number
  readonly deviceId: string
  readonly score?: number | undefined
  readonly temperatureCelsius?: number | undefined
  readonly powerWatts?: number | undefined
  readonly linkGBps?: number | undefined
}

/** The messages of the event stream by name. */
export interface StreamMessages {
  /** First on every connection: which server run this is, and what happened before, oldest first. */
  readonly history: {
    readonly boot: string
    readonly entries: readonly TimelineEntry[]
    readonly samples: readonly SamplePoint[]
  }
  readonly state: DashboardState
  readonly entries: readonly TimelineEntry[]
  readonly samples: readonly SamplePoint[]
}

/** Lines of the answer to an eject request: steps as they happen, then how it ended. */
export type EjectLine =
  | { readonly step: string; readonly status: string }
  | { readonly safeToUnplug: boolean; readonly text: string; readonly details: readonly string[] }
