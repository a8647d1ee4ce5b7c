import { ThunderboltSpeed, type Finding } from '@egpu/core'
import { linkGbps, type CableInventory, type CableLink } from '../links/cable-link.ts'
import type { MeshPeer, Neighbour } from '../peer.ts'
import { bridgeCycle, type BridgedCable } from './bridge-cycle.ts'
import type { HostNetwork } from './host-network.ts'

/** What is known at one moment; the mesh gathers it, a test writes it down. */
export interface Symptoms {
  readonly inventory: CableInventory
  readonly network: HostNetwork
  readonly peers: readonly MeshPeer[]
  readonly neighbours: readonly Neighbour[]
  /** Interfaces that have carrier but no IPv6 link-local address. */
  readonly withoutLinkLocal: readonly string[]
  /** Links that went down although the carrier is there, by interface. */
  readonly broken: readonly { readonly interfaceName: string; readonly how: 'silent' | 'one-way' }[]
  /** Interfaces on which no heartbeat ever arrived although requests do. */
  readonly unheard: readonly string[]
  readonly bridgedCables: readonly BridgedCable[]
  /** Messages about hosts that share a key. */
  readonly copies: readonly string[]
  /** Why it cannot be read who is paired. */
  readonly unreadablePeers: string | undefined
}

/** What a person should know about the cables between hosts, worst first. */
export function meshFindings(symptoms: Symptoms): readonly Finding[] {
  const found = [
    ...copies(symptoms),
    ...unreadable(symptoms),
    ...cycles(symptoms),
    ...missingDriver(symptoms),
    ...broken(symptoms),
    ...addresses(symptoms),
    ...routes(symptoms),
    ...mtus(symptoms),
    ...flowControl(symptoms),
    ...slowTraining(symptoms),
    ...loops(symptoms),
    ...heartbeats(symptoms),
    ...unpaired(symptoms),
  ]
  const order = { error: 0, warning: 1, info: 2 } as const
  return found.toSorted((a, b) => order[a.severity] - order[b.severity])
}

function* copies({ copies: messages }: Symptoms): Generator<Finding> {
  for (const message of messages)
    yield {
      code: 'identity-copied',
      severity: 'error',
      seen: message,
      advice: 'On one of the two remove identity.json in the folder of the mesh, start it again, and pair it anew.',
    }
}

function* unreadable({ unreadablePeers: why }: Symptoms): Generator<Finding> {
  if (why === undefined) return
  yield {
    code: 'peers-unreadable',
    severity: 'error',
    seen: `Nobody counts as paired: ${why}`,
    advice: 'Restore peers.json in the folder of the mesh from a backup, or remove it and pair the hosts anew.',
  }
}

function* cycles({ bridgedCables, network, inventory }: Symptoms): Generator<Finding> {
  const cycle = bridgeCycle(bridgedCables)
  if (cycle !== undefined) {
    yield {
      code: 'bridge-cycle',
      severity: 'error',
      seen: `Bridges join the cables of ${cycle.length} hosts into a ring; one broadcast circulates for ever.`,
      advice:
        'Take the Thunderbolt ports out of the bridge (on a Mac: delete the Thunderbolt Bridge service), or unplug one cable.',
      evidence: cycle.map((host) => ({ source: 'host on the ring', value: host })),
    }
    return
  }
  const cables = cableNames(inventory)
  for (const { name, members } of network.bridges) {
    const joined = members.filter((member) => cables.has(member))
    if (joined.length > 1)
      yield {
        code: 'cables-bridged',
        severity: 'warning',
        seen: `The bridge ${name} joins ${joined.length} cables; if their far ends are joined too, broadcasts circulate for ever.`,
        advice: `Take the Thunderbolt ports out of ${name}: the mesh needs no bridge.`,
        evidence: joined.map((member) => ({ source: `${name}/brif`, value: member })),
      }
  }
}

function* missingDriver({ inventory: { links, networkDriver } }: Symptoms): Generator<Finding> {
  for (const link of links) {
    if (link.interfaceName !== undefined) continue
    if (link.networkService === undefined)
      yield {
        code: 'thunderbolt-net-missing-there',
        severity: 'error',
        seen: `${named(link)} is connected but offers no network over the cable.`,
        advice:
          'On that host load the module thunderbolt_net (modprobe thunderbolt-net), or turn on its Thunderbolt networking.',
        evidence: [{ source: `${link.port} services`, value: undefined }],
      }
    else
      yield {
        code: 'thunderbolt-net-missing',
        severity: 'error',
        seen: `${named(link)} offers a network over the cable but this host made no interface for it.`,
        advice:
          networkDriver === 'missing'
            ? 'Load the module here: modprobe thunderbolt-net.'
            : 'Unplug the cable at both ends and plug it in again; with two cables between the same hosts, take one away.',
        evidence: [{ source: 'thunderbolt_net', value: networkDriver }],
      }
  }
}

function* broken({ broken: links, inventory }: Symptoms): Generator<Finding> {
  for (const { interfaceName, how } of links) {
    const cable = inventory.links.find((link) => link.interfaceName === interfaceName)
    const whom = cable === undefined ? 'the other host' : named(cable)
    const evidence = [{ source: interfaceName, value: how }]
    if (how === 'one-way')
      yield {
        code: 'one-way-link',
        severity: 'error',
        seen: `${interfaceName} receives from ${whom}, but nothing sent there arrives.`,
        advice:
          'Unplug the cable at both ends and plug it in again. If it comes back, load thunderbolt_net with e2e=0 on both hosts.',
        evidence,
      }
    else
      yield {
        code: 'silent-link',
        severity: 'error',
        seen: `${interfaceName} has carrier, but nothing arrives from ${whom}.`,
        advice:
          'See whether that host is up and its mesh runs; else unplug the cable at both ends and plug it in again.',
        evidence,
      }
  }
}

function* addresses({ withoutLinkLocal }: Symptoms): Generator<Finding> {
  for (const interfaceName of withoutLinkLocal)
    yield {
      code: 'no-link-local-address',
      severity: 'error',
      seen: `${interfaceName} is up but has no IPv6 link-local address, so nobody can be found over it.`,
      advice: `Turn IPv6 on for it: sysctl -w net.ipv6.conf.${interfaceName}.disable_ipv6=0, and let nothing set addr_gen_mode to none.`,
    }
}

function* routes({ network, inventory }: Symptoms): Generator<Finding> {
  const cables = cableNames(inventory)
  for (const name of network.defaultRoutes) {
    const bridge = network.bridges.find((candidate) => candidate.name === name)
    const via = cables.has(name) ? name : bridge?.members.find((member) => cables.has(member))
    if (via === undefined) continue
    yield {
      code: 'default-route-over-thunderbolt',
      severity: 'warning',
      seen: `A default route leaves by ${name}, which is a cable to another host: the Internet is looked for there.`,
      advice: `Stop DHCP on ${name}, or give it no gateway; a DHCP server on the other host answers over the cable too.`,
      evidence: [{ source: 'default route', value: name }],
    }
  }
}

function* mtus({ peers }: Symptoms): Generator<Finding> {
  for (const { hostname, links } of peers)
    for (const { mtu, remoteMtu, interfaceName } of links) {
      if (mtu === undefined || remoteMtu === undefined || mtu === remoteMtu) continue
      yield {
        code: 'mtu-mismatch',
        severity: 'warning',
        seen: `${interfaceName} has MTU ${mtu}, but ${hostname} uses ${remoteMtu} at its end.`,
        advice: 'Give both ends the same one: 65520 between Linux hosts, 9000 where one is a Mac.',
        evidence: [
          { source: `${interfaceName} mtu`, value: String(mtu) },
          { source: `${hostname} mtu`, value: String(remoteMtu) },
        ],
      }
    }
}

function* flowControl({ inventory: { links, e2e } }: Symptoms): Generator<Finding> {
  for (const link of links) {
    if (e2e === undefined || link.networkService === undefined || link.networkService.e2e === e2e) continue
    yield {
      code: 'e2e-mismatch',
      severity: 'warning',
      seen: `End-to-end flow control is ${e2e ? 'on here but off' : 'off here but on'} at ${named(link)}.`,
      advice:
        'Load thunderbolt_net with the same e2e on both hosts; e2e=0 is the safe choice where links hang or work one way only.',
      evidence: [
        { source: 'thunderbolt_net.e2e', value: e2e ? 'Y' : 'N' },
        { source: `${link.port} prtcstns`, value: link.networkService.e2e ? 'e2e' : 'no e2e' },
      ],
    }
  }
}

/** Labels whose links carry 40 Gb/s or more. */
const wide: ReadonlySet<ThunderboltSpeed | undefined> = new Set([
  ThunderboltSpeed.TB3,
  ThunderboltSpeed.TB4,
  ThunderboltSpeed.TB5,
])

function* slowTraining({ inventory: { links } }: Symptoms): Generator<Finding> {
  for (const link of links) {
    const gbps = linkGbps(link)
    if (gbps === undefined || gbps > 20 || !wide.has(link.sticker)) continue
    yield {
      code: 'trained-at-20-gbps',
      severity: 'info',
      seen: `The cable at ${link.port} to ${named(link)} trained to ${gbps} Gb/s; the port can do 40 or more.`,
      advice:
        'Hosts often train one lane to each other, which carries 13 to 14 Gb/s. Try another port or a shorter certified cable, and take ' +
        'other devices off the same controller; Linux bonds both lanes from 5.19 on.',
      evidence: [
        { source: `${link.port} receive`, value: lanesText(link.trained.receive) },
        { source: `${link.port} transmit`, value: lanesText(link.trained.transmit) },
      ],
    }
  }
}

function* loops({ inventory: { loops: found } }: Symptoms): Generator<Finding> {
  for (const { port, uuid } of found)
    yield {
      code: 'own-ports-joined',
      severity: 'warning',
      seen: `The cable at ${port} leads back to another port of this host.`,
      advice: 'Plug its other end into another host.',
      evidence: [{ source: `${port} unique_id`, value: uuid }],
    }
}

function* heartbeats({ unheard }: Symptoms): Generator<Finding> {
  for (const interfaceName of unheard)
    yield {
      code: 'heartbeats-blocked',
      severity: 'warning',
      seen: `Requests pass over ${interfaceName}, heartbeats (UDP) do not: a link that goes silent is noticed later.`,
      advice: `Let UDP through on ${interfaceName} in the firewalls of both hosts.`,
    }
}

function* unpaired({ neighbours }: Symptoms): Generator<Finding> {
  const seen = new Set<string>()
  for (const { id, interfaceName } of neighbours) {
    if (seen.has(id)) continue
    seen.add(id)
    yield {
      code: 'neighbour-not-paired',
      severity: 'info',
      seen: `A host with the key ${id.slice(0, 16)}… announces itself on ${interfaceName} and is not paired with this one.`,
      advice: 'If it is yours, run egpu mesh pair on both.',
    }
  }
}

function cableNames({ links }: CableInventory): ReadonlySet<string> {
  return new Set(links.flatMap(({ interfaceName }) => interfaceName ?? []))
}

function named({ remoteName, port }: CableLink): string {
  return remoteName ?? `the host at ${port}`
}

function lanesText(lanes: CableLink['trained']['receive']): string | undefined {
  return lanes === undefined ? undefined : `${lanes.lanes} × ${lanes.gbpsPerLane} Gb/s`
}
