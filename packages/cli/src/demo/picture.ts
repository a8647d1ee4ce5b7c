import { encode } from 'fast-png'
import type { Terminal } from '../output/terminal.ts'

type Color = readonly [red: number, green: number, blue: number]

/** Stops of the palette, from no second substance to much of it. */
const palette: readonly Color[] = [
  [10, 12, 28],
  [24, 70, 110],
  [44, 160, 150],
  [240, 226, 150],
]
/** Concentration at which the palette ends; the pattern's ridges reach about 0.35 of one. */
const brightest = 12_000

function colorOf(cell: number): Color {
  const place = Math.min(0.999, (cell >>> 16) / brightest) * (palette.length - 1)
  const index = Math.floor(place)
  const share = place - index
  const [low, high] = [palette[index] as Color, palette[index + 1] as Color]
  const mix = (channel: 0 | 1 | 2): number => Math.round(low[channel] + (high[channel] - low[channel]) * share)
  return [mix(0), mix(1), mix(2)]
}

/** The field as a PNG file's bytes, one pixel per cell. */
export function fieldPng(field: Uint32Array, size: number): Uint8Array {
  const data = new Uint8Array(size * size * 3)
  for (let cell = 0; cell < field.length; cell += 1) data.set(colorOf(field[cell] as number), cell * 3)
  return encode({ width: size, height: size, data, channels: 3, depth: 8 })
}

/** The field in upper half blocks, two cells a character, as wide as the terminal allows. */
export function fieldInTerminal(field: Uint32Array, size: number, { columns }: Pick<Terminal, 'columns'>): string[] {
  const across = Math.min(columns, 72)
  const at = (x: number, y: number): Color =>
    colorOf(field[Math.floor((y * size) / across) * size + Math.floor((x * size) / across)] as number)
  const lines: string[] = []
  for (let y = 0; y + 1 < across; y += 2) {
    let line = ''
    for (let x = 0; x < across; x += 1)
      line += `\u001B[38;2;${at(x, y).join(';')}m\u001B[48;2;${at(x, y + 1).join(';')}m▀`
    lines.push(`${line}\u001B[0m`)
  }
  return lines
}
