import type { Terminal } from './terminal.ts'

/** 64-bit integers become strings: JSON numbers would round them. */
export function toJson(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) => (typeof item === 'bigint' ? item.toString() : item))
}

/** One JSON value on one line. */
export function printJson(value: unknown, terminal: Terminal): void {
  terminal.print(toJson(value))
}
