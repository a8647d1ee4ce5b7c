import { readdirSync, readFileSync, realpathSync } from 'node:fs'
import { plainText } from '../text.ts'

/** First line of an attribute; `undefined` when it is not there, is empty, or cannot be read. */
export function readLine(path: string): string | undefined {
  try {
    const line = plainText(readFileSync(path, 'utf8').split('\n', 1)[0] ?? '').trim()
    return line === '' ? undefined : line
  } catch {
    return undefined
  }
}

/** A decimal or 0x number that an attribute holds; `undefined` for anything else. */
export function readNumber(path: string): number | undefined {
  const line = readLine(path)
  if (line === undefined || !/^(0x[\da-f]+|\d+)$/i.test(line)) return undefined
  const value = Number(line)
  return Number.isSafeInteger(value) ? value : undefined
}

export function listDirectory(path: string): readonly string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

export function resolvedPath(path: string): string | undefined {
  try {
    return realpathSync(path)
  } catch {
    return undefined
  }
}

/** `KEY=value` lines of a uevent file. */
export function readUevent(path: string): Readonly<Record<string, string>> {
  try {
    const lines = readFileSync(path, 'utf8').split('\n')
    return Object.fromEntries(lines.flatMap((line) => (line.includes('=') ? [splitOnce(line)] : [])))
  } catch {
    return {}
  }
}

function splitOnce(line: string): [string, string] {
  const at = line.indexOf('=')
  return [line.slice(0, at), plainText(line.slice(at + 1))]
}
