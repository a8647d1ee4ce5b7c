import type { StatePart, StateRange } from '@egpu/core'

/** Some bytes of a part, in order with the others. */
export interface DrainStep {
  readonly byteOffset: number
  readonly byteLength: number
  /** False where the bytes are those of the base. */
  readonly changed: boolean
}

/**
 * A part from its first byte to its last, as pieces that changed and pieces that did not. What changed is rounded to
 * whole units: a store takes over nothing smaller.
 */
export function drainPlan(
  { name, byteLength }: StatePart,
  changed: readonly StateRange[],
  unitBytes: number,
): readonly DrainStep[] {
  const units = changed
    .filter((range) => range.part === name && range.byteLength > 0)
    .map(({ byteOffset, byteLength: length }) => ({
      from: Math.max(0, Math.floor(byteOffset / unitBytes) * unitBytes),
      to: Math.min(byteLength, Math.ceil((byteOffset + length) / unitBytes) * unitBytes),
    }))
    .filter(({ from, to }) => from < to)
    .sort((a, b) => a.from - b.from)
  const steps: DrainStep[] = []
  let at = 0
  const add = (to: number, isChanged: boolean): void => {
    if (to <= at) return
    const joined = steps.at(-1)?.changed === isChanged ? steps.pop() : undefined
    const from = joined?.byteOffset ?? at
    steps.push({ byteOffset: from, byteLength: to - from, changed: isChanged })
    at = to
  }
  for (const { from, to } of units) {
    add(from, false)
    add(to, true)
  }
  add(byteLength, false)
  return steps
}
