import type { AbortOptions, LinkReport } from '@egpu/core'
import { receptacleNumber, readTrained } from './detect/router.ts'
import { iokitSource } from './iokit/source.ts'
import { above, takePicture } from './registry/picture.ts'
import type { RegistryNode, RegistryPicture, RoleRequest } from './registry/picture.ts'
import type { RegistrySource } from './registry/source.ts'
import { asInteger, asNumber, asText } from './registry/value.ts'

/** Another computer at the far end of a Thunderbolt cable. */
export interface ThunderboltPeer {
  /** Names its domain; equal to `domainUuid` of an interface over there. Lower case. */
  readonly domainUuid?: string | undefined
  /** What it calls its model: `Mac17,7`. */
  readonly deviceName?: string | undefined
  /** Where its cable is plugged in: `receptacle1`. */
  readonly receptacle?: string | undefined
  readonly trained?: LinkReport['trained']
}

/** A network interface that runs over a Thunderbolt cable. */
export interface ThunderboltInterface {
  /** `en5`. */
  readonly name: string
  /** Whether the driver reports carrier. */
  readonly isUp?: boolean | undefined
  /** What the interface claims to run at, in Gb/s. Not what the cable trained to, nor what gets through. */
  readonly claimedGbps?: number | undefined
  readonly mtu?: number | undefined
  /** Names this receptacle's own Thunderbolt domain. Lower case. */
  readonly domainUuid?: string | undefined
  /** Computers on the same Thunderbolt controller; on Apple silicon that is one receptacle. */
  readonly peers: readonly ThunderboltPeer[]
}

const roles: readonly RoleRequest[] = [
  { role: 'controller', classes: ['IOThunderboltController'], keys: [] },
  { role: 'switch', classes: ['IOThunderboltSwitch'], keys: [] },
  {
    role: 'port',
    classes: ['IOThunderboltPort'],
    keys: ['Socket ID', 'Current Link Speed', 'Current Link Width'],
  },
  { role: 'local-node', classes: ['IOThunderboltLocalNode'], keys: ['Domain UUID'] },
  { role: 'peer-link', classes: ['IOThunderboltXDomainLink'], keys: ['Domain UUID', 'Device Name'] },
  {
    role: 'ip-port',
    classes: ['AppleThunderboltIPPort'],
    keys: ['IOLinkStatus', 'IOLinkSpeed'],
    below: {
      when: () => true,
      roles: [{ role: 'network-interface', classes: ['IONetworkInterface'], keys: ['BSD Name', 'IOMaxTransferUnit'] }],
    },
  },
]

export interface ThunderboltInterfacesOptions extends AbortOptions {
  /** `iokitSource()` unless given, and closed afterwards; a source that is given stays open. */
  readonly source?: RegistrySource | undefined
}

/**
 * Every network interface over Thunderbolt with the computers its cable leads to, found by what they hang on and never
 * by their names. Rejects with `EGPU_NATIVE_UNAVAILABLE` where there is no IOKit.
 */
export async function thunderboltInterfaces(
  options: ThunderboltInterfacesOptions = {},
): Promise<readonly ThunderboltInterface[]> {
  options.signal?.throwIfAborted()
  const source = options.source ?? iokitSource()
  try {
    const picture = takePicture(await source.open({ signal: options.signal }), roles)
    return picture.withRole('network-interface').flatMap((node) => describeInterface(node, picture))
  } finally {
    if (options.source === undefined) await source[Symbol.asyncDispose]()
  }
}

/** Bits of IOLinkStatus (IONetworkMedium.h): 1 says that it is valid, 2 that there is a carrier. */
const statusValid = 1n
const statusActive = 2n

function describeInterface(node: RegistryNode, picture: RegistryPicture): ThunderboltInterface[] {
  const name = asText(node.properties.get('BSD Name'))
  const port = nearest(node, 'ip-port')
  if (name === undefined || port === undefined) return []
  const status = asInteger(port.properties.get('IOLinkStatus'))
  const bitsPerSecond = asNumber(port.properties.get('IOLinkSpeed'))
  const controller = nearest(node, 'controller')
  const peers = picture
    .withRole('peer-link')
    .filter((link) => controller !== undefined && nearest(link, 'controller') === controller)
  return [
    {
      name,
      isUp: status === undefined || (status & statusValid) === 0n ? undefined : (status & statusActive) !== 0n,
      claimedGbps: bitsPerSecond === undefined || bitsPerSecond <= 0 ? undefined : bitsPerSecond / 1e9,
      mtu: asNumber(node.properties.get('IOMaxTransferUnit')),
      domainUuid: uuidOf(nearest(node, 'local-node')),
      peers: peers.map(describePeer),
    },
  ]
}

function describePeer(link: RegistryNode): ThunderboltPeer {
  const port = nearest(link, 'port')
  // The host's own router hangs on a port too; only one below a router has a cable in it.
  const cablePort = port !== undefined && nearest(port, 'switch') !== undefined ? port : undefined
  return {
    domainUuid: uuidOf(link),
    deviceName: asText(link.properties.get('Device Name')),
    receptacle: cablePort === undefined ? undefined : receptacleNumber(cablePort),
    trained: cablePort === undefined ? undefined : readTrained(cablePort),
  }
}

function uuidOf(node: RegistryNode | undefined): string | undefined {
  return asText(node?.properties.get('Domain UUID'))?.toLowerCase()
}

function nearest(node: RegistryNode, role: Parameters<RegistryPicture['withRole']>[0]): RegistryNode | undefined {
  return [...above(node)].find((one) => one.roles.has(role))
}
