import { FailurePredictor } from '../../src/predictor/failure-predictor.ts'
import type { Trace } from './traces.ts'

/** An alarm later than this before the loss comes too late to save and move anything. */
export const usableLeadMs = 10_000

/** An alarm earlier than this before a loss is about something else. */
const longestLeadMs = 15 * 60_000

export interface Verdict {
  /** From the alarm to the loss; `undefined` where none came in time. */
  readonly leadMs: number | undefined
  readonly falseAlarms: number
  /** When each alarm went off. */
  readonly alarmsAtMs: readonly number[]
}

/** Has a fresh predictor read a trace. */
export function judge(trace: Trace): Verdict {
  const predictor = new FailurePredictor()
  const alarmsAtMs: number[] = []
  let wasAlarmed = false
  for (const sample of trace.samples) {
    const { alarm } = predictor.read(sample)
    if (alarm && !wasAlarmed) alarmsAtMs.push(sample.atMs)
    wasAlarmed = alarm
  }
  const { failedAtMs } = trace
  const lead = (atMs: number): number => (failedAtMs === undefined ? Infinity : failedAtMs - atMs)
  const right = alarmsAtMs.filter((atMs) => lead(atMs) <= longestLeadMs)
  const usable = right.find((atMs) => lead(atMs) >= usableLeadMs)
  return {
    leadMs: usable === undefined ? undefined : lead(usable),
    falseAlarms: alarmsAtMs.length - right.length,
    alarmsAtMs,
  }
}

export interface Score {
  readonly traces: number
  readonly caught: number
  readonly falseAlarms: number
  readonly deviceDays: number
  readonly leadsMs: readonly number[]
}

export function score(traces: Iterable<Trace>): Score {
  let count = 0
  let falseAlarms = 0
  let lengthMs = 0
  const leadsMs: number[] = []
  for (const trace of traces) {
    const verdict = judge(trace)
    count += 1
    falseAlarms += verdict.falseAlarms
    lengthMs += trace.lengthMs
    if (verdict.leadMs !== undefined) leadsMs.push(verdict.leadMs)
  }
  return { traces: count, caught: leadsMs.length, falseAlarms, deviceDays: lengthMs / 86_400_000, leadsMs }
}
