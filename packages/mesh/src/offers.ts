import { EGpuError, EGpuErrorCode, RuntimeKind, type ComputeTarget } from '@egpu/core'
import { asAmount, asCount, asShape, asText, type Shape } from './shape.ts'
import { plainText } from './text.ts'

const mostTargets = 64
const mostEntries = 256
const runtimes: ReadonlySet<unknown> = new Set(Object.values(RuntimeKind))
const kinds: ReadonlySet<unknown> = new Set(['gpu', 'cpu', 'host'])

/**
 * The targets a peer offers, checked. One that cannot be what it says (half a byte of memory, two with one id, a runtime
 * nobody knows) has the whole offer refused with `EGPU_PEER_REFUSED`. Whether it really has what it offers shows when
 * work is placed there.
 */
export function readOffer(body: unknown): readonly ComputeTarget[] {
  if (!Array.isArray(body) || body.length > mostTargets) refuse(`a list of at most ${mostTargets} targets is wanted`)
  const targets = (body as unknown[]).map(readTarget)
  if (new Set(targets.map(({ id }) => id)).size < targets.length) refuse('two targets have the same id')
  return targets
}

function readTarget(value: unknown, index: number): ComputeTarget {
  const shape = asShape(value) ?? refuse(`target ${index} is not an object`)
  const what = `target ${index}`
  const id = asText(shape['id'], 256) ?? refuse(`${what} has no id`)
  const name = asText(shape['name']) ?? refuse(`${what} has no name`)
  if (!kinds.has(shape['kind'])) refuse(`${what} is of no known kind`)
  if (!runtimes.has(shape['runtime'])) refuse(`${what} has no known runtime`)
  if (typeof shape['removable'] !== 'boolean') refuse(`${what} does not say whether it is removable`)
  return {
    id: plainText(id),
    name: plainText(name),
    kind: shape['kind'] as ComputeTarget['kind'],
    runtime: shape['runtime'] as ComputeTarget['runtime'],
    removable: shape['removable'],
    ...optional(shape, 'deviceId', (field) => asText(field, 256), what),
    ...optional(shape, 'memoryBytes', (field) => asCount(field), what),
    ...optional(shape, 'flops', asAmount, what),
    ...optional(shape, 'memoryGBps', asAmount, what),
    ...optional(shape, 'limits', readLimits, what),
    ...optional(shape, 'features', readFeatures, what),
  }
}

function optional<K extends keyof ComputeTarget, T>(
  shape: Shape,
  key: K,
  read: (value: unknown) => T | undefined,
  what: string,
): { [P in K]?: T } {
  const value = shape[key]
  if (value === undefined || value === null) return {}
  return { [key]: read(value) ?? refuse(`the ${key} of ${what} cannot be true`) } as { [P in K]?: T }
}

function readLimits(value: unknown): Readonly<Record<string, number>> | undefined {
  const entries = Object.entries(asShape(value) ?? {})
  const isFit = ([key, limit]: [string, unknown]): boolean => key.length <= 128 && asAmount(limit) !== undefined
  if (asShape(value) === undefined || entries.length > mostEntries || !entries.every(isFit)) return undefined
  return Object.fromEntries(entries) as Record<string, number>
}

function readFeatures(value: unknown): readonly string[] | undefined {
  if (!Array.isArray(value) || value.length > mostEntries) return undefined
  return value.every((entry) => asText(entry) !== undefined) ? (value as string[]) : undefined
}

function refuse(reason: string): never {
  throw new EGpuError(EGpuErrorCode.PeerRefused, `the offer is refused: ${reason}`)
}
