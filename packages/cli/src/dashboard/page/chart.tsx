import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import type { SamplePoint } from '../protocol.ts'
import { themeChanged } from './theme.tsx'

interface ChartProps {
  readonly field: 'score' | 'temperatureCelsius' | 'powerWatts' | 'linkGBps'
  readonly title: string
  readonly unit: string
  readonly from: number
  /** `undefined` for as high as the readings go. */
  readonly to: number | undefined
  readonly points: readonly SamplePoint[]
}

const height = 120

/** What a chart shows at least of the time. */
const leastSeconds = 10

/** One reading over time. What the canvas shows is also said in words. */
export function Chart({ field, title, unit, from, to, points }: ChartProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | undefined>(undefined)
  const newest = points.findLast((point) => point[field] !== undefined)?.[field]

  useEffect(() => {
    const { current } = place
    if (current === null) return
    const draw = (): void => {
      plot.current?.destroy()
      plot.current = new uPlot(options(current, from, to), dataOf(points, field), current)
    }
    draw()
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: current.clientWidth, height }))
    resized.observe(current)
    window.addEventListener(themeChanged, draw)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    scheme.addEventListener('change', draw)
    return () => {
      resized.disconnect()
      window.removeEventListener(themeChanged, draw)
      scheme.removeEventListener('change', draw)
      plot.current?.destroy()
      plot.current = undefined
    }
    // The points change every second; the plot is made once and given them below.
  }, [field, from, to])

  useEffect(() => {
    plot.current?.setData(dataOf(points, field))
  }, [points, field])

  const said = newest === undefined ? 'unknown' : `${newest.toFixed(newest < 10 ? 1 : 0)} ${unit}`
  return (
    <figure class="chart">
      <figcaption>
        {title} <strong>{said}</strong>
      </figcaption>
      <div ref={place} role="img" aria-label={`${title} over the last minutes, now ${said}`} />
    </figure>
  )
}

function dataOf(points: readonly SamplePoint[], field: ChartProps['field']): uPlot.AlignedData {
  return [points.map(({ at }) => at / 1_000), points.map((point) => point[field] ?? null)]
}

/** Colours as a canvas takes them: the variables hold functions that only the style engine resolves. */
function paints(place: HTMLElement): (variable: string) => string {
  return (variable) => {
    place.style.color = `var(${variable})`
    const { color } = getComputedStyle(place)
    place.style.color = ''
    return color
  }
}

function options(place: HTMLElement, from: number, to: number | undefined): uPlot.Options {
  const color = paints(place)
  const axis = { stroke: color('--dim'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false } }
  return {
    width: place.clientWidth,
    height,
    legend: { show: false },
    cursor: { show: false },
    scales: {
      // Around a single reading uPlot would show a day.
      x: { range: (_plot, least, most) => [least, Math.max(most, least + leastSeconds)] },
      y: { range: (_plot, _least, most) => [from, to ?? Math.max(1, most * 1.2)] },
    },
    axes: [
      {
        ...axis,
        values: (_plot, marks) => marks.map((mark) => new Date(mark * 1_000).toTimeString().slice(0, 8)),
        space: 90,
        size: 24,
      },
      { ...axis, size: 44 },
    ],
    series: [{}, { stroke: color('--accent'), width: 2, fill: color('--accent-faint'), points: { show: false } }],
  }
}
