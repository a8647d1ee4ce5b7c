import type { Terminal } from './terminal.ts'

/** One JSON value on one line. 64-bit integers become strings: JSON numbers would round them. */
export function printJson(value: unknown, terminal: Terminal): void {
  terminal.print(JSON.stringify(value, (_key, item: unknown) => (typeof item === 'bigint' ? item.toString() : item)))
}
