import type { EGpuDevice, Enclosure } from '@egpu/core'
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { DashboardState } from '../protocol.ts'
import { CableControls } from './cable-controls.tsx'
import { EjectDialog } from './eject-dialog.tsx'
import { cableText, deviceTitle, enclosureTitle, gigabytes } from './words.ts'

/** The machine as a picture: the host on one side, and each cable with what hangs on it. */
export function Machine({ state }: { readonly state: DashboardState }): JSX.Element {
  const [ejecting, setEjecting] = useState<EGpuDevice>()
  const { devices, enclosures, cables, host } = state
  const known = new Set(enclosures.map(({ id }) => id))
  const loose = devices.filter(({ enclosureId }) => enclosureId === undefined || !known.has(enclosureId))
  const external = loose.filter(({ verdict }) => verdict.conclusion === 'external')
  const inside = loose.filter(({ verdict }) => verdict.conclusion !== 'external')
  const unplugged = cables.filter(({ plugged }) => !plugged)
  const draw = (device: EGpuDevice): JSX.Element => (
    <Gpu key={device.id} device={device} health={state.health[device.id]} onEject={() => setEjecting(device)} />
  )
  return (
    <section aria-labelledby="machine">
      <h2 id="machine">Machine</h2>
      <div class="picture">
        <div class="host-box">
          <strong>{host.name}</strong>
          {inside.length > 0 && <ul class="gpus">{inside.map(draw)}</ul>}
          {inside.length === 0 && <span class="dim">no GPU of its own in sight</span>}
        </div>
        <ul class="cables">
          {enclosures.map((enclosure) => (
            <li key={enclosure.id} class="cable-row" data-cable="in">
              <Cable label={cableText(enclosure.link)} bad={enclosure.authorized === false} />
              <Box enclosure={enclosure} empty={!devices.some(({ enclosureId }) => enclosureId === enclosure.id)}>
                {devices.filter(({ enclosureId }) => enclosureId === enclosure.id).map(draw)}
              </Box>
              <CableControls cable={cables.find(({ id }) => id === enclosure.id)} />
            </li>
          ))}
          {external.map((device) => (
            <li key={device.id} class="cable-row" data-cable="in">
              <Cable label={cableText(device.link)} bad={false} />
              <div class="box">
                <strong>{device.enclosureName ?? 'no enclosure reports itself'}</strong>
                <ul class="gpus">{draw(device)}</ul>
              </div>
            </li>
          ))}
          {unplugged.map((cable) => (
            <li key={cable.id} class="cable-row" data-cable="out">
              <Cable label="unplugged" bad />
              <div class="box absent">
                <strong>{cable.name}</strong>
                <span class="dim">not connected</span>
              </div>
              <CableControls cable={cable} />
            </li>
          ))}
          {enclosures.length + external.length + unplugged.length === 0 && (
            <li class="dim">No external GPU and no enclosure is connected.</li>
          )}
        </ul>
      </div>
      {ejecting !== undefined && <EjectDialog device={ejecting} onClose={() => setEjecting(undefined)} />}
    </section>
  )
}

function Cable({ label, bad }: { readonly label: string; readonly bad: boolean }): JSX.Element {
  return (
    <div class={bad ? 'cable bad' : 'cable'}>
      <span class="cable-label">{label}</span>
      <span class="cable-line" aria-hidden="true" />
    </div>
  )
}

interface BoxProps {
  readonly enclosure: Enclosure
  readonly empty: boolean
  readonly children: JSX.Element[]
}

function Box({ enclosure, empty, children }: BoxProps): JSX.Element {
  const note =
    enclosure.authorized === false
      ? 'not authorized: its GPU cannot be used'
      : empty
        ? 'no GPU is seen in it'
        : undefined
  return (
    <div class="box">
      <strong>{enclosureTitle(enclosure)}</strong>
      {enclosure.port !== undefined && <span class="dim">at {enclosure.port}</span>}
      {note !== undefined && <span class="warn">{note}</span>}
      <ul class="gpus">{children}</ul>
    </div>
  )
}

interface GpuProps {
  readonly device: EGpuDevice
  readonly health: DashboardState['health'][string] | undefined
  readonly onEject: () => void
}

function Gpu({ device, health, onEject }: GpuProps): JSX.Element {
  const title = deviceTitle(device)
  const external = device.verdict.conclusion === 'external'
  const effective = gigabytes(device.link?.effectiveGBps?.toDevice)
  const level = health?.level ?? 'unknown'
  return (
    <li class="gpu" data-state={device.state}>
      <span class={`lamp ${level}`} aria-hidden="true" />
      <span>
        <strong>{title}</strong>
        <span class="facts">
          {device.state}; health {health?.score === undefined ? 'unknown' : `${Math.round(health.score)} of 100`}
          {effective !== undefined && `; about ${effective}`}
          {device.link?.bottleneck !== undefined && `, limited because ${device.link.bottleneck.reason}`}
        </span>
      </span>
      {external && (
        <button type="button" onClick={onEject} aria-label={`Eject ${title}`}>
          Eject
        </button>
      )}
    </li>
  )
}
