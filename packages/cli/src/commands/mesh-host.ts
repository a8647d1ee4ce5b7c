import { execFile } from 'node:child_process'
import { opendir } from 'node:fs/promises'
import { promisify } from 'node:util'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { defaultMeshDirectory, linuxInventory, loadPeers, macosInventory, ThunderboltMesh } from '@egpu/mesh'
import type { CableInventory, MeshOptions, MeshPeer, PairedPeer } from '@egpu/mesh'
import { plain } from '../output/text.ts'

/** What every `egpu mesh` command takes. */
export interface MeshCommandOptions {
  readonly json?: boolean | undefined
  readonly sysfsRoot?: string | undefined
  readonly directory?: string | undefined
  readonly lan?: boolean | undefined
}

/** What makes a paired host show up: the commands that ask and leave are no members. */
export const howToJoin: string =
  'It has to run egpu mesh receive or a program with @egpu/mesh. Without a cable both need --lan.'

/** Peers by name or key; all when nobody in particular is wanted. */
export function chosen(
  mesh: ThunderboltMesh,
  wanted: string | undefined,
  options: MeshCommandOptions,
): readonly MeshPeer[] {
  const isWanted = ({ id, name }: { readonly id: string; readonly name: string }): boolean =>
    wanted === undefined || name === wanted || id.startsWith(wanted)
  const peers = mesh.peers.filter(({ id, hostname }) => isWanted({ id, name: hostname }))
  if (peers.length > 0) return peers
  const absent = pairedHosts(options).filter(isWanted)
  throw new EGpuError(EGpuErrorCode.PeerLost, absent.length > 0 ? notHere(absent) : notPaired(mesh, wanted))
}

function notHere(absent: readonly { readonly name: string }[]): string {
  return `${absent.map(({ name }) => plain(name)).join(', ')}: paired, and not here. ${howToJoin}`
}

function notPaired({ peers }: ThunderboltMesh, wanted: string | undefined): string {
  const who = wanted === undefined ? 'nobody' : `no host called ${plain(wanted)}`
  const others = peers.map(({ hostname }) => plain(hostname)).join(', ')
  return `this host is paired with ${who}${others === '' ? '; egpu mesh pair does that' : `; here are: ${others}`}`
}

export function pairedHosts({ directory = defaultMeshDirectory() }: MeshCommandOptions): readonly PairedPeer[] {
  return loadPeers(directory)
}

/** A visitor: it sees and asks everything but is no member, so a running program of this host is not disturbed. */
export async function openMesh(
  options: MeshCommandOptions,
  signal: AbortSignal,
  changes: Pick<MeshOptions, 'visitor' | 'settleMs'> = {},
): Promise<ThunderboltMesh> {
  if (options.sysfsRoot !== undefined) await (await opendir(options.sysfsRoot)).close()
  return ThunderboltMesh.discover({
    signal,
    visitor: true,
    directory: options.directory,
    lan: options.lan,
    probeBytes: 0,
    inventory: inventoryOf(options),
    ...changes,
  })
}

const run = promisify(execFile)

function inventoryOf({ sysfsRoot }: MeshCommandOptions): (() => CableInventory | Promise<CableInventory>) | undefined {
  if (sysfsRoot !== undefined) return () => linuxInventory(sysfsRoot)
  if (process.platform !== 'darwin') return undefined
  return async () => {
    const [profile, ports] = await Promise.all([
      run('system_profiler', ['SPThunderboltDataType', '-json'], { maxBuffer: 16 * 2 ** 20 }),
      run('networksetup', ['-listallhardwareports']),
    ])
    return macosInventory({ thunderbolt: JSON.parse(profile.stdout) as unknown, hardwarePorts: ports.stdout })
  }
}
