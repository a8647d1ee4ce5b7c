import type { AbortOptions, ComputeTarget } from '@egpu/core'
import { abort, assertOptions, callback, duration, flag, kind, offered, optional, text, texts } from './arguments.ts'
import { wholeNumber, type Kind } from './arguments.ts'
import type { HostNetwork } from './doctor/host-network.ts'
import { isTag } from './identity/host-tag.ts'
import { isFingerprint } from './identity/identity.ts'
import type { MeshIdentity } from './identity/identity.ts'
import type { CableInventory } from './links/cable-link.ts'
import { mostProbeBytes } from './measure/probe-server.ts'
import { plainText } from './text.ts'

export interface MeshOptions extends AbortOptions {
  /** Where this host's key and its paired peers are kept. Default: `EGPU_MESH_DIR`, else `~/.config/egpu/mesh`. */
  readonly directory?: string | undefined
  /** A key other than the directory's. */
  readonly identity?: MeshIdentity | undefined
  /** Whom to trust, by fingerprint, in place of the directory's paired peers. */
  readonly isPaired?: ((peerId: string) => boolean) | undefined
  /** What to be called at the peers. Default: the host's name. */
  readonly name?: string | undefined
  /** Port of the control plane. Default: 47413, or any when that one is taken. */
  readonly port?: number | undefined
  /** Hosts that multicast does not reach: `host:port`. Default: `EGPU_MESH_PEERS`, comma-separated. */
  readonly staticPeers?: readonly string[] | undefined
  /** Also look for peers on other networks than cables. They are used for requests only while no cable is up. */
  readonly lan?: boolean | undefined
  /** What this host offers to run work on. `offer()` changes it later. */
  readonly targets?: readonly ComputeTarget[] | undefined
  /** The cables; the default reads sysfs on Linux and knows none elsewhere (`macosInventory` makes it of a Mac's data). */
  readonly inventory?: (() => CableInventory | Promise<CableInventory>) | undefined
  /** Routes and bridges, for the findings; the default reads them on Linux. */
  readonly hostNetwork?: (() => HostNetwork | Promise<HostNetwork>) | undefined
  /** Look and ask without being a member: nothing is announced, offered or counted at the peers. */
  readonly visitor?: boolean | undefined
  /**
   * How long `discover` waits for the first answers at most, in ms. Default 3000; it returns as soon as every cable answered,
   * and with `lan` once every paired host did on every network, since nobody knows how many hosts a network has.
   */
  readonly settleMs?: number | undefined
  /**
   * Bytes each way to measure a cable's throughput with when it comes up; 0 leaves it unmeasured. Default 32 MiB, at most
   * 1 GiB.
   */
  readonly probeBytes?: number | undefined
  /** Tells this running machine from others that have its key: 16 hex digits. Only tests have several on one. */
  readonly hostTag?: string | undefined
}

export interface StaticPeer {
  readonly host: string
  readonly port: number
}

/** Taken when nobody else has it, so that a peer's address can be written down. */
export const defaultPort = 47_413

/** `host`, `host:port`, `[fe80::1%thunderbolt0]:port` or a bare IPv6 address. `TypeError` for anything else. */
export function parseStaticPeer(text: string): StaticPeer {
  const bracketed = /^\[([^\]]+)\](?::(\d+))?$/.exec(text.trim())
  const plain = /^([^:\s]+)(?::(\d+))?$/.exec(text.trim())
  const bare = /^[\da-f:]*:[\da-f:]*(?:%[^\s:]+)?$/i.test(text.trim()) ? text.trim() : undefined
  const host = bracketed?.[1] ?? plain?.[1] ?? bare
  const port = Number(bracketed?.[2] ?? plain?.[2] ?? defaultPort)
  if (host === undefined || port < 1 || port > 65_535)
    throw new TypeError(`"${text}" is no address of a peer; write host:port or [IPv6 address]:port`)
  return { host, port }
}

export function staticPeersOf(
  { staticPeers }: Pick<MeshOptions, 'staticPeers'>,
  env: NodeJS.ProcessEnv = process.env,
): readonly StaticPeer[] {
  const written = staticPeers ?? (env['EGPU_MESH_PEERS'] ?? '').split(',')
  return written.filter((text) => text.trim() !== '').map(parseStaticPeer)
}

const identity: Kind = kind('an identity such as loadIdentity() gives', (value) => {
  const { nodeId, privateKeyPem, certificatePem } = (value ?? {}) as Partial<Record<keyof MeshIdentity, unknown>>
  return isFingerprint(nodeId) && typeof privateKeyPem === 'string' && typeof certificatePem === 'string'
})

const kinds: Readonly<Record<keyof MeshOptions, Kind>> = {
  ...abort,
  directory: optional(text),
  identity: optional(identity),
  isPaired: optional(callback),
  name: optional(kind('a name to read', (value) => typeof value === 'string' && plainText(value).trim() !== '')),
  port: optional(wholeNumber(0, 65_535)),
  staticPeers: optional(texts),
  lan: optional(flag),
  targets: optional(offered),
  inventory: optional(callback),
  hostNetwork: optional(callback),
  visitor: optional(flag),
  settleMs: optional(duration),
  probeBytes: optional(wholeNumber(0, mostProbeBytes)),
  hostTag: optional(
    kind('a host tag of 16 hex digits (or left out)', (value) => typeof value === 'string' && isTag(value)),
  ),
}

/** `TypeError` for the first option that cannot be. */
export function assertMeshOptions(options: MeshOptions): void {
  assertOptions('the options of a mesh', options, kinds)
  staticPeersOf(options)
}
