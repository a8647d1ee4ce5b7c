import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { DashboardState, SamplePoint } from '../protocol.ts'
import { Chart } from './chart.tsx'
import { deviceTitle } from './words.ts'

const charts = [
  { field: 'score', title: 'Health', unit: 'of 100', from: 0, to: 100 },
  { field: 'temperatureCelsius', title: 'Temperature', unit: '°C', from: 20, to: 100 },
  { field: 'powerWatts', title: 'Power', unit: 'W', from: 0, to: undefined },
  { field: 'linkGBps', title: 'Link', unit: 'GB/s', from: 0, to: undefined },
] as const

interface HealthProps {
  readonly state: DashboardState
  readonly samples: ReadonlyMap<string, readonly SamplePoint[]>
}

/** Ten minutes of readings of one device. */
export function Health({ state: { devices }, samples }: HealthProps): JSX.Element {
  const [chosen, choose] = useState<string>()
  const device = devices.find(({ id }) => id === chosen) ?? devices[0]
  return (
    <section aria-labelledby="health">
      <h2 id="health">Health and link</h2>
      {device === undefined ? (
        <p class="dim">No GPU is on the bus.</p>
      ) : (
        <>
          <label>
            GPU{' '}
            <select value={device.id} onChange={({ currentTarget }) => choose(currentTarget.value)}>
              {devices.map((each) => (
                <option key={each.id} value={each.id}>
                  {deviceTitle(each)}
                </option>
              ))}
            </select>
          </label>
          <div class="charts">
            {charts.map((chart) => (
              <Chart key={`${device.id} ${chart.field}`} {...chart} points={samples.get(device.id) ?? []} />
            ))}
          </div>
        </>
      )}
    </section>
  )
}
