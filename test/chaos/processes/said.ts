import { appendFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FromLife } from './protocol.ts'

/** Said by a file: between a child of `survive` and its parent nobody else can talk. */
export function sayIn(directory: string): (message: FromLife) => void {
  return (message) => appendFileSync(join(directory, 'said'), `${JSON.stringify(message)}\n`)
}

/** What children and their parent said, in the order in which they did. */
export async function saidIn(directory: string): Promise<readonly FromLife[]> {
  const lines = (await readFile(join(directory, 'said'), 'utf8').catch(() => '')).split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as FromLife)
}
