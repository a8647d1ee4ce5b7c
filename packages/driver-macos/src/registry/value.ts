/**
 * A property of a registry entry. Every integer is a `bigint`, because a Thunderbolt UID fills all 64 bits and a
 * `number` would change it; `number` is a real.
 */
export type RegistryValue =
  | bigint
  | number
  | boolean
  | string
  | Uint8Array
  | readonly RegistryValue[]
  | { readonly [key: string]: RegistryValue }

/** A registry value that is a dictionary, else `undefined`. */
export function asDictionary(value: RegistryValue | undefined): { readonly [key: string]: RegistryValue } | undefined {
  if (typeof value !== 'object' || value instanceof Uint8Array || isArray(value)) return undefined
  return value
}

/** A registry value that is an array, else `undefined`. */
export function asArray(value: RegistryValue | undefined): readonly RegistryValue[] | undefined {
  return typeof value === 'object' && isArray(value) ? value : undefined
}

/**
 * Whatever holds an integer: a number, a whole real, or up to eight bytes of data with the lowest first, which is how
 * PCI ids come (`<de100000>` is 0x10de).
 */
export function asInteger(value: RegistryValue | undefined): bigint | undefined {
  if (typeof value === 'bigint') return value
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : undefined
  if (!(value instanceof Uint8Array) || value.length === 0 || value.length > 8) return undefined
  return value.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
}

/** A measurement: a number of either kind. */
export function asReal(value: RegistryValue | undefined): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined
  return typeof value === 'bigint' ? Number(value) : undefined
}

/** Like `asInteger`, for what fits a `number`; anything that does not is unknown. */
export function asNumber(value: RegistryValue | undefined): number | undefined {
  const integer = asInteger(value)
  if (integer === undefined) return undefined
  const number = Number(integer)
  return Number.isSafeInteger(number) ? number : undefined
}

/** A claim: a boolean, or a number that is 1 or 0. */
export function asBoolean(value: RegistryValue | undefined): boolean | undefined {
  if (typeof value === 'boolean') return value
  const integer = asInteger(value)
  return integer === undefined || integer < 0n || integer > 1n ? undefined : integer === 1n
}

/** A text, or data that holds one up to its first NUL (`model` of a PCI device). Never empty. */
export function asText(value: RegistryValue | undefined): string | undefined {
  if (typeof value === 'string') return value.trim() || undefined
  if (!(value instanceof Uint8Array)) return undefined
  const end = value.indexOf(0)
  return new TextDecoder().decode(end === -1 ? value : value.subarray(0, end)).trim() || undefined
}

/** `Array.isArray` does not narrow readonly arrays. */
function isArray(value: object): value is readonly RegistryValue[] {
  return Array.isArray(value)
}
