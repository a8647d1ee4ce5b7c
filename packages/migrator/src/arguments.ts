/** Throws a `TypeError` unless `value` has these methods: what a wrong object does otherwise shows much later. */
export function assertMethods(what: string, value: unknown, methods: readonly string[]): void {
  const missing = methods.filter((name) => typeof (value as Record<string, unknown> | null)?.[name] !== 'function')
  if (missing.length === 0) return
  const lacks = value !== null && typeof value === 'object' ? `one without ${missing.join('(), ')}()` : kindOf(value)
  throw new TypeError(`${what}, not ${lacks}`)
}

export function assertBoolean(name: string, value: unknown): void {
  if (value === undefined || typeof value === 'boolean') return
  throw new TypeError(`${name} must be true or false, not ${kindOf(value)}`)
}

/** Throws a `TypeError` for what is no object, such as a path in place of settings. */
export function assertObject(name: string, value: unknown): void {
  if (typeof value === 'object' && value !== null) return
  throw new TypeError(`${name} must be an object, not ${kindOf(value)}`)
}

/** The value where it is short, as a person would write it. */
function kindOf(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 60))
  if (typeof value === 'object' && value !== null) return 'an object of another kind'
  return typeof value === 'function' ? 'a function' : `${value as number}`
}
