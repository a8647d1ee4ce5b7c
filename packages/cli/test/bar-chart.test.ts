import { describe, expect, it } from 'vitest'
import { barChart } from '../src/output/bar-chart.ts'

describe('a bar chart', () => {
  it('is on one scale from 0, in eighths of a column', () => {
    const [whole = '', half = '', least = ''] = barChart(
      [
        { label: 'fast', value: 10 },
        { label: 'half as fast', value: 5 },
        { label: 'slow', value: 0.001 },
      ],
      60,
    )
    const length = (line: string): number => line.split('█').length - 1
    expect(length(half) * 2).toBeCloseTo(length(whole), -0.5)
    expect(length(least)).toBe(0)
    expect(least).toContain('▏')
  })

  it.each([40, 80, 200])('keeps to %d columns, also with a long name', (columns) => {
    const lines = barChart([{ label: 'a graphics processor with a name that does not end', value: 123.456 }], columns)
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(columns)
    expect(lines[0]).toContain('123')
  })
})
