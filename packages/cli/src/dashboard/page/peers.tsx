import type { JSX } from 'preact'
import type { PeerView } from '../protocol.ts'

/** Hosts on the other end of a Thunderbolt cable. */
export function Peers({ peers }: { readonly peers: readonly PeerView[] }): JSX.Element {
  return (
    <section aria-labelledby="peers">
      <h2 id="peers">Mesh</h2>
      {peers.length === 0 ? (
        <p class="dim">No other host is on a Thunderbolt cable.</p>
      ) : (
        <ul>
          {peers.map(({ id, name, paired, links }) => (
            <li key={id}>
              <strong>{name}</strong> {paired ? 'paired' : 'not paired'}
              {links.map(({ interfaceName, latencyUs, gbps }) => (
                <span key={interfaceName} class="facts">
                  {interfaceName}: {latencyUs === undefined ? 'latency unknown' : `${Math.round(latencyUs)} µs`},{' '}
                  {gbps === undefined ? 'speed unknown' : `${gbps.toFixed(1)} Gb/s`}
                </span>
              ))}
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}
