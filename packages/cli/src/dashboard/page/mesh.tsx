import type { MeshLink, MeshPeer } from '@egpu/mesh'
import type { JSX } from 'preact'
import type { MeshView } from '../protocol.ts'
import { bytesText } from '../../output/bytes-text.ts'
import { FindingList } from './findings.tsx'
import { laneText, linkLabel } from './words.ts'

/** The hosts at the other ends of this host's cables, and what lies between. */
export function Mesh({ mesh: { peers, strangers, findings, problem } }: { readonly mesh: MeshView }): JSX.Element {
  return (
    <section aria-labelledby="mesh">
      <h2 id="mesh">Mesh</h2>
      {problem !== undefined && <p class="warn">{problem}</p>}
      {problem === undefined && peers.length === 0 && <p class="dim">No paired host can be reached now.</p>}
      {peers.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Table of links to other hosts">
          <table>
            <thead>
              <tr>
                <th scope="col">Host</th>
                <th scope="col">Link</th>
                <th scope="col">Trained</th>
                <th scope="col">Latency</th>
                <th scope="col">Measured in</th>
                <th scope="col">Measured out</th>
                <th scope="col">Offers</th>
              </tr>
            </thead>
            <tbody>
              {peers.flatMap((peer) => peer.links.map((link) => <Row key={link.id} peer={peer} link={link} />))}
            </tbody>
          </table>
        </div>
      )}
      {strangers > 0 && (
        <p>
          {strangers === 1 ? 'Another host' : `${strangers} other hosts`} on the cables: not paired with this one (egpu
          mesh pair)
        </p>
      )}
      {findings.length > 0 && <FindingList findings={findings} />}
    </section>
  )
}

function Row({ peer, link }: { readonly peer: MeshPeer; readonly link: MeshLink }): JSX.Element {
  const { latencyUs, receiveGbps, transmitGbps } = link.measured
  return (
    <tr>
      <th scope="row">{peer.hostname}</th>
      <td>{linkLabel(link)}</td>
      <td>{laneText(link.trained?.receive) ?? 'unknown'}</td>
      <td class="number">{latencyUs === undefined ? 'not measured' : `${Math.round(latencyUs)} µs`}</td>
      <td class="number">{rateText(receiveGbps)}</td>
      <td class="number">{rateText(transmitGbps)}</td>
      <td>{peer.targets.length === 0 ? 'nothing' : peer.targets.map(offerText).join(', ')}</td>
    </tr>
  )
}

function rateText(gbps: number | undefined): string {
  return gbps === undefined ? 'not measured' : `${gbps.toFixed(1)} Gb/s`
}

function offerText({ name, memoryBytes }: MeshPeer['targets'][number]): string {
  return memoryBytes === undefined ? name : `${name}, ${bytesText(memoryBytes)}`
}
