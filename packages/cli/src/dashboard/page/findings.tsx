import type { Finding } from '@egpu/core'
import type { JSX } from 'preact'

/** What a doctor would say. */
export function Findings({ findings }: { readonly findings: readonly Finding[] }): JSX.Element {
  return (
    <section aria-labelledby="findings">
      <h2 id="findings">Doctor</h2>
      {findings.length === 0 ? <p class="good">Nothing is wrong.</p> : <FindingList findings={findings} />}
    </section>
  )
}

export function FindingList({ findings }: { readonly findings: readonly Finding[] }): JSX.Element {
  return (
    <ul class="findings">
      {findings.map(({ code, severity, seen, advice }) => (
        <li key={`${code} ${seen}`} class={severity}>
          <strong>
            {severity}: {code}
          </strong>
          <p>{seen}</p>
          <p>{advice}</p>
        </li>
      ))}
    </ul>
  )
}
