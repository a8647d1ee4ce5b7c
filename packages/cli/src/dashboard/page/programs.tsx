import type { JSX } from 'preact'
import type { ProgramsView, ProgramView } from '../protocol.ts'
import { bytesText } from '../../output/bytes-text.ts'

/** Programs of others on NVIDIA GPUs; nothing where there is no such GPU awake. */
export function Programs({ view }: { readonly view: ProgramsView }): JSX.Element | null {
  const { programs, problem } = view
  if (problem !== undefined) return <p class="warn">Programs on NVIDIA GPUs are not known: {problem}</p>
  if (programs.length === 0) return null
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of programs on NVIDIA GPUs">
      <table>
        <caption>Programs of others on NVIDIA GPUs</caption>
        <thead>
          <tr>
            <th scope="col">Program</th>
            <th scope="col">State</th>
            <th scope="col">GPU memory</th>
            <th scope="col">Before its GPU goes</th>
          </tr>
        </thead>
        <tbody>
          {programs.map((program) => (
            <Row key={program.pid} program={program} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Row({ program }: { readonly program: ProgramView }): JSX.Element {
  const { pid, name, command, user, state, memory, obstacles } = program
  return (
    <tr>
      <th scope="row">
        {name} (pid {pid}
        {user !== undefined && `, ${user}`})<code class="command">{command}</code>
      </th>
      <td>{state}</td>
      <td>
        {memory.map(({ gpu, bytes }) => (
          <div key={gpu}>
            {bytes === undefined ? 'some' : bytesText(bytes)} on {gpu}
          </div>
        ))}
      </td>
      <td class={obstacles.length === 0 ? 'good wraps' : 'warn wraps'}>
        {obstacles.length === 0 ? 'can be parked or moved' : `has to be stopped: ${obstacles.join('; ')}`}
      </td>
    </tr>
  )
}
