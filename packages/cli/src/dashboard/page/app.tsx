import type { JSX } from 'preact'
import { Findings } from './findings.tsx'
import { Health } from './health.tsx'
import { Machine } from './machine.tsx'
import { Mesh } from './mesh.tsx'
import { useModel } from './store.ts'
import { ThemeSwitch } from './theme.tsx'
import { Timeline } from './timeline.tsx'
import { Workloads } from './workloads.tsx'

export function App(): JSX.Element {
  const model = useModel()
  const { state, connected } = model
  return (
    <>
      <header>
        <h1>
          egpu <span class="host">{state?.host.name ?? ''}</span>
        </h1>
        <p role="status" class={connected ? 'live' : 'stale'}>
          {connected ? 'live' : 'not connected; trying again'}
        </p>
        <ThemeSwitch />
      </header>
      <main aria-busy={state === undefined}>
        {state === undefined ? (
          <p>Asking the machine…</p>
        ) : (
          <>
            <Machine state={state} />
            <Findings findings={state.findings} />
            <Health state={state} samples={model.samples} />
            <Workloads state={state} entries={model.entries} />
            {state.mesh !== undefined && <Mesh mesh={state.mesh} />}
            <Timeline entries={model.entries} received={model.received} missed={model.missed} />
          </>
        )}
      </main>
    </>
  )
}
