/**
 * Keeps count of the kernel's SEQNUM. Since the change "kobject: reduce uevent_sock_mutex contention" (2024) numbers are
 * handed out before the lock that orders delivery, so two events can arrive swapped: a number counts as missing only
 * when it has not come after a grace period. Events of network devices in other namespaces are never delivered here and
 * look the same; a needless look at everything is the price.
 */
export interface Sequence {
  /** Highest number seen; `undefined` before the first event and after an overflow. */
  readonly last: number | undefined
  /** A look has shown what everything up to here did. */
  readonly covered: number
  readonly missing: readonly { readonly from: number; readonly to: number; readonly untilMs: number }[]
}

export const graceMs = 250

export const freshSequence: Sequence = { last: undefined, covered: 0, missing: [] }

/** Takes note of a number. `heard` is true for an event that came before. */
export function count(
  sequence: Sequence,
  seqnum: number | undefined,
  atMs: number,
): { readonly sequence: Sequence; readonly heard: boolean } {
  if (seqnum === undefined) return { sequence, heard: false }
  const { last, missing } = sequence
  if (last === undefined || seqnum === last + 1) return { sequence: { ...sequence, last: seqnum }, heard: false }
  if (seqnum > last) {
    const gap = { from: last + 1, to: seqnum - 1, untilMs: atMs + graceMs }
    return { sequence: { ...sequence, last: seqnum, missing: [...missing, gap] }, heard: false }
  }
  const late = missing.find(({ from, to }) => from <= seqnum && seqnum <= to)
  if (late === undefined) return { sequence, heard: true }
  const rest = missing.flatMap((gap) => {
    if (gap !== late) return [gap]
    const below = { ...gap, to: seqnum - 1 }
    const above = { ...gap, from: seqnum + 1 }
    return [below, above].filter(({ from, to }) => from <= to)
  })
  return { sequence: { ...sequence, missing: rest }, heard: false }
}

/** Whether events are missing for good. */
export function hasGap({ missing }: Sequence, atMs: number): boolean {
  return missing.some(({ untilMs }) => untilMs <= atMs)
}

/** A look that began when the kernel's counter stood at `seqnum` shows what every event up to there did. */
export function cover(sequence: Sequence, seqnum: number | undefined): Sequence {
  return seqnum === undefined ? sequence : { ...sequence, covered: Math.max(sequence.covered, seqnum) }
}

export function isCovered(sequence: Sequence, seqnum: number | undefined): boolean {
  return seqnum !== undefined && seqnum <= sequence.covered
}

/** After an overflow nobody knows which number comes next. */
export function forget(sequence: Sequence): Sequence {
  return { ...sequence, last: undefined, missing: [] }
}
