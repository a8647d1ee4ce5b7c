import type { MeshEvent, MeshLink, MeshPeer } from '@egpu/mesh'
import { plain } from './text.ts'

/** What a mesh says of paired hosts and the ways to them, as a sentence; `undefined` where nobody needs one. */
export function meshEventText(event: MeshEvent): string | undefined {
  const text = sentence(event)
  return text === undefined ? undefined : plain(text)
}

function sentence(event: MeshEvent): string | undefined {
  switch (event.type) {
    case 'peer-connected':
    case 'peer-lost':
      return `${event.type}: ${event.peer.hostname}`
    case 'link-up':
      return `link-up: ${way(event.peer, event.link)}`
    case 'link-down':
      return `link-down: ${way(event.peer, event.link)}: ${event.message}`
    case 'link-changed': {
      const [before, after] = [speed(event.before), speed(event.after)]
      // Measured anew, which is seen in its table.
      return before === after ? undefined : `link-changed: ${way(event.peer, event.after)}: ${before} to ${after}`
    }
    default:
      return undefined
  }
}

function way({ hostname }: MeshPeer, { kind, port, interfaceName, sticker }: MeshLink): string {
  const parts = [port ?? interfaceName, kind === 'network' ? 'network, no cable' : sticker]
  return [`${hostname} over`, parts.filter((part) => part !== undefined).join(', ')].join(' ')
}

/** Both ways: a cable may have three lanes out and one in. */
function speed({ trained }: MeshLink): string {
  const [inward, outward] = [trained?.receive, trained?.transmit].map((lanes) =>
    lanes === undefined ? 'unknown' : `${lanes.lanes * lanes.gbpsPerLane} Gb/s`,
  )
  return inward === outward ? `${inward}` : `${inward} in and ${outward} out`
}
