/** Runs the measuring files of one bench, one after another, and prints their figures as JSON lines. */
import { readdirSync } from 'node:fs'
import { basename } from 'node:path'
import type { Figure } from './figure.ts'

interface Measuring {
  measure(): Promise<readonly Figure[]>
}

const [bench = '', ...wanted] = process.argv.slice(2)
const home = new URL(`./${bench}/`, import.meta.url)
const files = readdirSync(home).filter((name) => name.endsWith('.ts'))

for (const file of files) {
  const name = basename(file, '.ts')
  if (wanted.length > 0 && !wanted.includes(name)) continue
  const module = (await import(new URL(file, home).href)) as Partial<Measuring>
  if (module.measure === undefined) continue
  try {
    for (const figure of await module.measure()) console.log(JSON.stringify({ bench, ...figure }))
  } catch (error) {
    process.exitCode = 1
    console.error(`${bench}/${file}: could not measure:`, error)
  }
}
