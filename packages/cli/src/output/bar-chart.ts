export interface Bar {
  readonly label: string
  readonly value: number
}

/** An eighth to eight eighths of a column. */
const eighths = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█']

/** Horizontal bars on one scale from 0, each with its label and its value. */
export function barChart(bars: readonly Bar[], columns: number): string[] {
  const values = bars.map(({ value }) => value.toPrecision(3))
  const widest = Math.max(...bars.map(({ label }) => label.length))
  const labelWidth = Math.min(widest, Math.floor(columns / 2))
  const valueWidth = Math.max(...values.map((value) => value.length))
  const room = Math.max(4, columns - labelWidth - valueWidth - 4)
  const most = Math.max(...bars.map(({ value }) => value), Number.MIN_VALUE)
  return bars.map(({ label, value }, index) => {
    const length = Math.max(1, Math.round((value / most) * room * 8))
    const bar = '█'.repeat(Math.floor(length / 8)) + (length % 8 === 0 ? '' : (eighths[(length % 8) - 1] ?? ''))
    const name = label.length > labelWidth ? `${label.slice(0, labelWidth - 1)}…` : label.padEnd(labelWidth)
    return `  ${name} ${bar.padEnd(room)} ${(values[index] ?? '').padStart(valueWidth)}`
  })
}
