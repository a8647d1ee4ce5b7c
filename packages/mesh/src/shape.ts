/** Checks of what came from outside. Each answers `undefined` for what it does not accept; nothing is converted. */
export type Shape = Readonly<Record<string, unknown>>

export function asShape(value: unknown): Shape | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Shape) : undefined
}

export function asText(value: unknown, longest = 128): string | undefined {
  return typeof value === 'string' && value.length <= longest ? value : undefined
}

/** A whole number within limits. */
export function asCount(value: unknown, most: number = Number.MAX_SAFE_INTEGER, least = 0): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most
    ? (value as number)
    : undefined
}

/** A finite number from 0 up. */
export function asAmount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined
}
