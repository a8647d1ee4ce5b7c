import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { pairingDigits } from '@egpu/mesh'
import { InvalidArgumentError } from 'commander'
import { printJson } from '../output/json.ts'
import type { Terminal } from '../output/terminal.ts'
import { plain } from '../output/text.ts'
import type { CommandContext } from './context.ts'
import { openMesh, pairedHosts, type MeshCommandOptions } from './mesh-host.ts'

export async function pair(
  code: string | undefined,
  options: MeshCommandOptions & { readonly fingerprint?: string | undefined },
  { terminal, signal }: CommandContext,
): Promise<void> {
  if (options.fingerprint !== undefined) {
    if (code !== undefined) throw new InvalidArgumentError('give a code or a fingerprint, not both.')
    await trust(options.fingerprint, options, terminal, signal)
    return
  }
  if (code !== undefined) assertCode(code)
  await using mesh = await openMesh(options, signal)
  if (code !== undefined) {
    const peer = await mesh.pairWith(code, { signal })
    report(peer, options, terminal)
    return
  }
  await using window = await mesh.openPairing()
  if (options.json === true) printJson({ code: window.code, nodeId: mesh.nodeId }, terminal)
  else {
    terminal.print(`On the other host:  egpu mesh pair ${window.code}${options.lan === true ? ' --lan' : ''}`)
    terminal.note('Waiting; Ctrl-C ends it.')
  }
  const ended = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
  report(await Promise.race([window.paired, ended]), options, terminal)
}

/** Said before anything is opened. */
function assertCode(code: string): void {
  try {
    pairingDigits(code)
  } catch (error) {
    throw new InvalidArgumentError(`${(error as Error).message}.`)
  }
}

async function trust(
  fingerprint: string,
  options: MeshCommandOptions,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<void> {
  const id = fingerprint.toLowerCase().replaceAll(/[\s:-]/g, '')
  if (!/^[\da-f]{64}$/.test(id))
    throw new InvalidArgumentError('a fingerprint has 64 hex digits; egpu mesh status shows it.')
  await using mesh = await openMesh(options, signal, { settleMs: 0 })
  if (id === mesh.nodeId)
    throw new InvalidArgumentError('that is the fingerprint of this host; take the one that the other host shows.')
  const peer = { id, name: id.slice(0, 16), pairedAt: new Date().toISOString() }
  mesh.trust(peer)
  if (options.json === true) printJson({ paired: peer, nodeId: mesh.nodeId }, terminal)
  else terminal.print(`${id} is trusted. Do the same there with ${mesh.nodeId}`)
}

function report(
  peer: { readonly id: string; readonly name: string },
  { json }: MeshCommandOptions,
  terminal: Terminal,
): void {
  if (json === true) printJson({ paired: peer }, terminal)
  else terminal.print(`Paired with ${plain(peer.name)}  ${terminal.colors.dim(peer.id)}`)
}

export async function unpair(
  peer: string,
  options: MeshCommandOptions,
  { terminal, signal }: CommandContext,
): Promise<void> {
  const known = pairedHosts(options).filter(({ id, name }) => name === peer || id.startsWith(peer))
  const [found] = known
  if (found === undefined || known.length > 1)
    throw new EGpuError(
      EGpuErrorCode.PeerLost,
      known.length === 0
        ? `no paired host is called ${peer}`
        : `${known.length} paired hosts are called ${peer}; give the key`,
    )
  await using mesh = await openMesh(options, signal, { settleMs: 0 })
  mesh.forget(found.id)
  if (options.json === true) printJson({ unpaired: found }, terminal)
  else terminal.print(`${plain(found.name)} is not trusted any more. Run it there too.`)
}
