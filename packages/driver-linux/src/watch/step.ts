import type { DriverEvent } from '@egpu/core/driver'
import type { TrackedDevice, WatchEffect, WatchState } from './state.ts'

/** What a message led to. */
export interface Step {
  readonly state: WatchState
  readonly effects: readonly WatchEffect[]
}

export function emit(event: DriverEvent): WatchEffect {
  return { do: 'emit', event }
}

export function setDevice(state: WatchState, key: string, device: TrackedDevice | undefined): WatchState {
  const devices = new Map(state.devices)
  if (device === undefined) devices.delete(key)
  else devices.set(key, device)
  return { ...state, devices }
}

/** Soon, but not once per event. */
export function wantLook(state: WatchState, atMs: number, delayMs: number = state.options.settleMs): WatchState {
  const lookAtMs = Math.max(atMs + delayMs, state.lookedAtMs + state.options.spacingMs)
  return { ...state, lookAtMs: Math.min(state.lookAtMs ?? Number.POSITIVE_INFINITY, lookAtMs) }
}
