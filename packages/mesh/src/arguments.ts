import { isFingerprint } from './identity/identity.ts'
import { readOffer } from './offers.ts'
import type { EtcdCoordinatorOptions } from './ownership/etcd-coordinator.ts'

/** What an argument has to be, in words and as a check. */
export interface Kind {
  readonly words: string
  /** What came instead, in words; `undefined` when the value is one. */
  readonly misfit: (value: unknown) => string | undefined
}

/** Throws a `TypeError` that names the argument, what it may be, and what came instead. */
export function assertKind(name: string, value: unknown, { words, misfit }: Kind): void {
  const came = misfit(value)
  if (came !== undefined) throw new TypeError(`${name} must be ${words}, not ${came}`)
}

/** The same for every one of some options, which are an object. */
export function assertOptions<T extends object>(
  name: string,
  options: T,
  kinds: { readonly [K in keyof T]-?: Kind },
): void {
  assertKind(name, options, object)
  for (const [key, kind] of Object.entries<Kind>(kinds)) assertKind(key, options[key as keyof T], kind)
}

/** May be left out. */
export function optional({ words, misfit }: Kind): Kind {
  return { words, misfit: (value) => (value === undefined ? undefined : misfit(value)) }
}

export function kind(words: string, isOne: (value: unknown) => boolean): Kind {
  return { words, misfit: (value) => (isOne(value) ? undefined : inWords(value)) }
}

/** An object by what it can do: one that lacks a method shows it much later otherwise. */
export function withMethods(words: string, methods: readonly string[]): Kind {
  return {
    words,
    misfit: (value) => {
      const missing = methods.filter((name) => typeof (value as Record<string, unknown> | null)?.[name] !== 'function')
      if (missing.length === 0) return undefined
      if (typeof value !== 'object' || value === null) return inWords(value)
      return value instanceof Promise ? 'a promise of one: await it' : `one without ${missing.join('(), ')}()`
    },
  }
}

export function wholeNumber(least: number, most: number): Kind {
  const isOne = (value: unknown): boolean =>
    Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most
  return kind(`a whole number from ${least} to ${most}`, isOne)
}

export function oneOf(words: readonly string[]): Kind {
  return kind(`one of ${words.join(', ')}`, (value) => words.includes(value as string))
}

export const object: Kind = kind('an object', (value) => typeof value === 'object' && value !== null)
export const text: Kind = kind('a text that is not empty', (value) => typeof value === 'string' && value !== '')
export const texts: Kind = kind(
  'a list of texts',
  (value) => Array.isArray(value) && value.every((each) => typeof each === 'string'),
)
export const flag: Kind = kind('true or false', (value) => typeof value === 'boolean')
export const callback: Kind = kind('a function', (value) => typeof value === 'function')
export const duration: Kind = kind('a number from 0 up', (value) => typeof value === 'number' && value >= 0)
export const nodeId: Kind = kind('the id of a host, which is 64 hex digits', isFingerprint)

/** What every call takes that can be given up. */
export const abort: { readonly signal: Kind } = {
  signal: optional(kind('an AbortSignal', (value) => value instanceof AbortSignal)),
}

/** `mesh.control`, or whatever stands in for it. */
export const connections: Kind = withMethods('the PeerConnections of a mesh (`mesh.control`)', [
  'connections',
  'onConnection',
  'handle',
  'request',
])

/** Where an etcd is and in whose name it is asked, for coordinators and registries. */
export const etcdOptions: Readonly<Record<keyof EtcdCoordinatorOptions, Kind>> = {
  hosts: kind(
    'a list of addresses such as http://10.0.0.1:2379',
    (value) => texts.misfit(value) === undefined && (value as string[]).length > 0 && !(value as string[]).includes(''),
  ),
  self: text,
  leaseSeconds: optional(wholeNumber(1, 1e9)),
  credentials: optional(object),
  auth: optional(object),
  prefix: optional(kind('a text', (value) => typeof value === 'string')),
  clock: optional(withMethods('a Clock', ['now', 'sleep'])),
}

/** Targets to offer, by the rules that peers go by. */
export const offered: Kind = {
  words: 'a list of targets that peers can take',
  misfit: (value) => {
    try {
      readOffer(value)
      return undefined
    } catch (error) {
      return `this one: ${(error as Error).message}`
    }
  },
}

/** The value where it is short, as a person would write it. */
function inWords(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 60))
  if (Array.isArray(value)) return 'such a list'
  if (typeof value === 'object' && value !== null) return 'an object of another kind'
  return typeof value === 'function' ? 'a function' : `${value as number}`
}
