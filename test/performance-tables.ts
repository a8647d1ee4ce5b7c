import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Figure } from '../bench/figure.ts'
import { root } from './workspace.ts'

const begin = '<!-- From here on made by `npm run docs` out of bench/results. -->'

/** Benches whose figures a page has, with what they are about. */
const benches = {
  product: 'The command and the dashboard',
  migrator: 'Checkpoints and moves',
  mesh: 'Hosts on a cable',
  spine: 'Devices, events and routing',
  linux: 'Looking at a Linux machine',
  macos: "Looking at a Mac's registry",
  wgpu: 'WebGPU devices that survive',
} as const

/** A line of a recorded run: a figure, or a note on where it was measured. */
type Line = Figure | { readonly note: string }

/** The page on performance with its made part anew. What stands before that part is kept as it is. */
export function performancePage(page: string, results: string = join(root, 'bench/results')): string {
  const [written = ''] = page.split(begin)
  const sections = Object.entries(benches).map(([bench, title]) => section(bench, title, results))
  return `${written.trimEnd()}\n\n${begin}\n\n${sections.join('\n')}`
}

/** The newest `<bench>-<date>.jsonl` counts: what `pnpm bench <bench>` printed. */
function section(bench: string, title: string, results: string): string {
  const record = new RegExp(`^${bench}-(\\d{4}-\\d\\d-\\d\\d)\\.jsonl$`)
  const newest = readdirSync(results)
    .filter((name) => record.test(name))
    .sort()
    .at(-1)
  if (newest === undefined) return `## ${title}\n\nNo run is recorded; \`pnpm bench ${bench}\` measures.\n`
  const lines = readFileSync(join(results, newest), 'utf8')
    .split('\n')
    // A build may have said something in between.
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line)
  const notes = lines.flatMap((line) => ('note' in line ? [line.note] : []))
  const rows = lines.flatMap((line) => ('note' in line ? [] : [row(line)]))
  const source = `\`pnpm bench ${bench}\`, ${record.exec(newest)?.[1]}${notes.map((note) => `; ${note}`).join('')}.`
  const head = '| figure | measured | against | ratio | bar |\n|---|---|---|---|---|'
  return `## ${title}\n\n${source}\n\n${head}\n${rows.join('\n')}\n`
}

function row({ figure, value, unit, against = '', ratio, bar = '', pass }: Figure): string {
  const times = ratio === undefined ? '' : `${short(ratio)} x`
  const cells = [figure, `${short(value)} ${unit}`, against, times, `${bar}${pass === false ? ', **missed**' : ''}`]
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

/** Three digits that count, and no more than are there. */
function short(value: number): string {
  return Math.abs(value) >= 1_000 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(3)))
}
