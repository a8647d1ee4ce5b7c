import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import {
  defaultMeshDirectory,
  linuxInventory,
  loadIdentity,
  loadPeers,
  macosInventory,
  receiveFiles,
  sendFile,
  ThunderboltMesh,
} from '@egpu/mesh'
import type { CableInventory, MeshLink, MeshOptions, MeshPeer } from '@egpu/mesh'
import { InvalidArgumentError, Option, type Command } from 'commander'
import { printFinding } from '../output/device-text.ts'
import { printJson } from '../output/json.ts'
import type { Terminal } from '../output/terminal.ts'
import { plain } from '../output/text.ts'
import { jsonOption, sysfsRootOption, wholeNumber, type CommandContext } from './context.ts'

interface MeshCommandOptions {
  readonly json?: boolean | undefined
  readonly sysfsRoot?: string | undefined
  readonly directory?: string | undefined
  readonly lan?: boolean | undefined
}

export function registerMesh(egpu: Command, context: CommandContext): void {
  const mesh = egpu.command('mesh').description('hosts joined by Thunderbolt cables')
  const command = (name: string, about: string): Command =>
    mesh
      .command(name)
      .description(about)
      .addOption(jsonOption())
      .addOption(sysfsRootOption())
      .addOption(new Option('--directory <dir>', "where this host's key and its peers are kept"))
      .addOption(new Option('--lan', 'look on other networks too, not on cables alone'))

  command('status', 'say who is at the other end of each cable, how fast it is, and what is wrong').action(
    (options: MeshCommandOptions) => status(options, context),
  )
  command('pair', 'make two hosts trust each other: run it on one, and with the code it shows on the other')
    .argument('[code]', 'the code that the other host shows')
    .addOption(new Option('--fingerprint <hex>', 'trust the host with this key instead, and do the same there'))
    .action((code: string | undefined, options: MeshCommandOptions & { fingerprint?: string }) =>
      pair(code, options, context),
    )
  command('unpair', 'stop trusting a host')
    .argument('<peer>', 'its name or the beginning of its key')
    .action((peer: string, options: MeshCommandOptions) => unpair(peer, options, context))
  command('bench', 'measure latency and throughput of every link to the peers')
    .argument('[peer]', 'its name or the beginning of its key; all when left out')
    .option('--megabytes <number>', 'how much to send each way', wholeNumber, 256)
    .action((peer: string | undefined, options: MeshCommandOptions & { megabytes: number }) =>
      bench(peer, options, context),
    )
  command('send', 'send a file to a host where egpu mesh receive runs')
    .argument('<file>')
    .argument('[peer]', 'its name or the beginning of its key; the only one when left out')
    .action((file: string, peer: string | undefined, options: MeshCommandOptions) => send(file, peer, options, context))
  command('receive', 'take files that paired hosts send, until Ctrl-C')
    .argument('[folder]', 'where to put them', '.')
    .action((folder: string, options: MeshCommandOptions) => receive(folder, options, context))
}

async function status(options: MeshCommandOptions, { terminal, signal }: CommandContext): Promise<void> {
  await using mesh = await open(options, signal)
  const { nodeId, hostname, cables, peers, neighbours, findings, totalBandwidthGbps } = mesh
  if (options.json === true) {
    printJson({ nodeId, hostname, totalBandwidthGbps, cables, peers, neighbours, findings }, terminal)
    return
  }
  const { print, colors } = terminal
  print(`${colors.bold(plain(hostname))}  ${colors.dim(nodeId)}`)
  if (cables.length === 0) print('No cable leads to another host.')
  for (const peer of peers) {
    print()
    printPeer(peer, terminal)
  }
  const alone = cables.filter(
    ({ interfaceName }) => !peers.some(({ links }) => links.some((link) => link.interfaceName === interfaceName)),
  )
  for (const { port, remoteName, interfaceName } of alone)
    print(
      `\n${colors.yellow('!')} ${port}  ${plain(remoteName ?? 'a host')}, not in the mesh${interfaceName === undefined ? '' : ` (${interfaceName})`}`,
    )
  for (const { id, name } of loadPeers(options.directory ?? defaultMeshDirectory()))
    if (!peers.some((peer) => peer.id === id))
      print(
        `\n${colors.yellow('!')} ${plain(name)}  ${colors.dim(id.slice(0, 16))}  paired, and not here. ${howToJoin}`,
      )
  for (const finding of findings) {
    print()
    printFinding(finding, terminal)
  }
}

async function pair(
  code: string | undefined,
  options: MeshCommandOptions & { readonly fingerprint?: string | undefined },
  { terminal, signal }: CommandContext,
): Promise<void> {
  if (options.fingerprint !== undefined) {
    const id = options.fingerprint.toLowerCase().replaceAll(/[^\da-f]/g, '')
    if (id.length !== 64) throw new InvalidArgumentError('a fingerprint has 64 hex digits; egpu mesh status shows it.')
    await using mesh = await open(options, signal, { settleMs: 0 })
    mesh.trust({ id, name: id.slice(0, 16), pairedAt: new Date().toISOString() })
    terminal.print(`${id} is trusted. Do the same there with ${mesh.nodeId}`)
    return
  }
  if (code !== undefined && !/^([\s-]*\d){8}[\s-]*$/.test(code)) {
    throw new InvalidArgumentError('a pairing code has eight digits, as in 1234-5678.')
  }
  await using mesh = await open(options, signal)
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

function report(
  peer: { readonly id: string; readonly name: string },
  { json }: MeshCommandOptions,
  terminal: Terminal,
): void {
  if (json === true) printJson({ paired: peer }, terminal)
  else terminal.print(`Paired with ${plain(peer.name)}  ${terminal.colors.dim(peer.id)}`)
}

async function unpair(peer: string, options: MeshCommandOptions, { terminal, signal }: CommandContext): Promise<void> {
  const directory = options.directory ?? defaultMeshDirectory()
  const known = loadPeers(directory).filter(({ id, name }) => name === peer || id.startsWith(peer))
  const [found] = known
  if (found === undefined || known.length > 1)
    throw new EGpuError(
      EGpuErrorCode.PeerLost,
      known.length === 0
        ? `no paired host is called ${peer}`
        : `${known.length} paired hosts are called ${peer}; give the key`,
    )
  await using mesh = await open(options, signal, { settleMs: 0 })
  mesh.forget(found.id)
  if (options.json === true) printJson({ unpaired: found }, terminal)
  else terminal.print(`${plain(found.name)} is not trusted any more. Run it there too.`)
}

async function bench(
  wanted: string | undefined,
  options: MeshCommandOptions & { readonly megabytes: number },
  { terminal, signal }: CommandContext,
): Promise<void> {
  await using mesh = await open(options, signal)
  for (const peer of chosen(mesh, wanted))
    for (const { id } of peer.links) {
      const link = await mesh.measure(id, { signal, bytes: options.megabytes * 1_000_000 })
      if (options.json === true) printJson({ peer: { id: peer.id, hostname: peer.hostname }, link }, terminal)
      else terminal.print(`${plain(peer.hostname)}  ${linkText(link)}`)
    }
}

async function send(
  file: string,
  wanted: string | undefined,
  options: MeshCommandOptions,
  { terminal, signal }: CommandContext,
): Promise<void> {
  await using mesh = await open(options, signal)
  const peers = chosen(mesh, wanted)
  const [peer] = peers
  if (peer === undefined || peers.length > 1)
    throw new EGpuError(
      EGpuErrorCode.PeerLost,
      `say which peer: ${peers.map(({ hostname }) => plain(hostname)).join(', ')}`,
    )
  const startedAt = performance.now()
  const bytes = await sendFile(mesh.control, peer.id, file, { signal }).catch((error: unknown) => {
    if (!EGpuError.is(error, EGpuErrorCode.PeerLost)) throw error
    const text = `${error.message}; what arrived is kept: send it again, and it goes on where it was`
    throw new EGpuError(EGpuErrorCode.PeerLost, text, { cause: error })
  })
  const seconds = (performance.now() - startedAt) / 1_000
  if (options.json === true)
    printJson({ file, bytes, seconds, peer: { id: peer.id, hostname: peer.hostname } }, terminal)
  else
    terminal.print(
      `${file} is at ${plain(peer.hostname)}: ${bytes} bytes in ${seconds.toFixed(2)} s, ${((bytes * 8) / seconds / 1e9).toFixed(2)} Gb/s`,
    )
}

async function receive(
  folder: string,
  options: MeshCommandOptions,
  { terminal, signal }: CommandContext,
): Promise<void> {
  // Whoever finds us may send at once, so nothing is waited for before files are taken.
  await using mesh = await open(options, signal, { visitor: false, settleMs: 0 })
  receiveFiles(mesh.control, folder, (file) => {
    if (options.json === true) printJson({ received: file }, terminal)
    else {
      const links = Object.keys(file.bytesPerLink).length
      const over = links > 1 ? ` over ${links} links` : ''
      const sender = mesh.peers.find(({ id }) => id === file.from)
      const from = sender === undefined ? file.from.slice(0, 16) : plain(sender.hostname)
      terminal.print(`${plain(file.name)}: ${file.byteLength} bytes from ${from}${over}`)
    }
  })
  terminal.note('Waiting for files; Ctrl-C ends it.')
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

/** What makes a paired host show up: the commands that ask and leave are no members. */
const howToJoin = 'It has to run egpu mesh receive or a program with @egpu/mesh. Without a cable both need --lan.'

/** Peers by name or key; all when nobody in particular is wanted. */
function chosen(mesh: ThunderboltMesh, wanted: string | undefined): readonly MeshPeer[] {
  const peers = mesh.peers.filter(
    ({ id, hostname }) => wanted === undefined || hostname === wanted || id.startsWith(wanted),
  )
  if (peers.length > 0) return peers
  throw new EGpuError(
    EGpuErrorCode.PeerLost,
    `no peer ${wanted === undefined ? '' : `called ${wanted} `}is connected; pair with it once (egpu mesh pair). ${howToJoin}`,
  )
}

/** A visitor: it sees and asks everything but is no member, so a running program of this host is not disturbed. */
function open(
  options: MeshCommandOptions,
  signal: AbortSignal,
  changes: Pick<MeshOptions, 'visitor' | 'settleMs'> = {},
): Promise<ThunderboltMesh> {
  const mesh: MeshOptions = {
    signal,
    visitor: true,
    directory: options.directory,
    lan: options.lan,
    probeBytes: 0,
    inventory: inventoryOf(options),
    ...changes,
  }
  // The key is made before anything else, so that an unusable folder is said at once.
  loadIdentity(options.directory ?? defaultMeshDirectory())
  return ThunderboltMesh.discover(mesh)
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

function printPeer({ hostname, id, links, targets }: MeshPeer, { print, colors }: Terminal): void {
  print(`${colors.green('✓')} ${colors.bold(plain(hostname))}  ${colors.dim(id.slice(0, 16))}`)
  for (const link of links) print(`  ${linkText(link)}`)
  for (const { name, memoryBytes } of targets)
    print(`  offers ${plain(name)}${memoryBytes === undefined ? '' : `, ${(memoryBytes / 1e9).toFixed(1)} GB`}`)
}

/** The three numbers that are not the same: printed on it, trained, measured. */
function linkText({ kind, interfaceName, port, sticker, trained, measured }: MeshLink): string {
  const lanes = trained?.receive
  const parts = [
    port ?? interfaceName ?? 'network',
    kind === 'thunderbolt' ? sticker : 'network, no cable',
    lanes === undefined ? undefined : `trained ${lanes.lanes} × ${lanes.gbpsPerLane} Gb/s`,
    measured.latencyUs === undefined ? undefined : `${Math.round(measured.latencyUs)} µs`,
    measured.receiveGbps === undefined
      ? undefined
      : `measured ${measured.receiveGbps.toFixed(1)} Gb/s in, ${(measured.transmitGbps ?? 0).toFixed(1)} out`,
  ]
  return parts.filter((part) => part !== undefined).join('; ')
}
