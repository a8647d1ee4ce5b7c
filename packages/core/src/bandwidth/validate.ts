/** Throws `TypeError` for anything but a number, `RangeError` for a negative or infinite one. */
export function requireNonNegative(name: string, value: number): void {
  if (typeof value !== 'number' || Number.isNaN(value)) throw new TypeError(`${name} must be a number, got ${value}`)
  if (value < 0 || value === Infinity) throw new RangeError(`${name} must be finite and not negative, got ${value}`)
}

/** As `requireNonNegative`, and refuses 0: an unknown quantity is `undefined`, never 0. */
export function requirePositive(name: string, value: number): void {
  requireNonNegative(name, value)
  if (value === 0) throw new RangeError(`${name} must be greater than 0; leave it undefined if it is not known`)
}

/** Refuses anything outside 0 to 1. */
export function requireShare(name: string, value: number): void {
  requireNonNegative(name, value)
  if (value > 1) throw new RangeError(`${name} must be between 0 and 1, got ${value}`)
}

/** Applies `check` to every property that is known. */
export function checkKnown(
  check: (name: string, value: number) => void,
  properties: Readonly<Record<string, number | undefined>>,
): void {
  for (const [name, value] of Object.entries(properties)) if (value !== undefined) check(name, value)
}
