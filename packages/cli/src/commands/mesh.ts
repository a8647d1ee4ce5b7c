import { InvalidArgumentError, Option, type Command } from 'commander'
import { printFinding } from '../output/device-text.ts'
import { printJson } from '../output/json.ts'
import { linkText, printPeer } from '../output/mesh-text.ts'
import { plain } from '../output/text.ts'
import { jsonOption, sysfsRootOption, wholeNumber, type CommandContext } from './context.ts'
import { receive, send } from './mesh-files.ts'
import { chosen, howToJoin, openMesh, pairedHosts, type MeshCommandOptions } from './mesh-host.ts'
import { pair, unpair } from './mesh-pairing.ts'

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
    .argument('<peer>', 'its name or the beginning of its key', nameOfPeer)
    .action((peer: string, options: MeshCommandOptions) => unpair(peer, options, context))
  command('bench', 'measure latency and throughput of every link to the peers')
    .argument('[peer]', 'its name or the beginning of its key; all when left out', nameOfPeer)
    .option('--megabytes <number>', 'how much to send each way at most, up to 1000', megabytes, 256)
    .action((peer: string | undefined, options: MeshCommandOptions & { megabytes: number }) =>
      bench(peer, options, context),
    )
  command('send', 'send a file to a host where egpu mesh receive runs')
    .argument('<file>')
    .argument('[peer]', 'its name or the beginning of its key; the only one when left out', nameOfPeer)
    .action((file: string, peer: string | undefined, options: MeshCommandOptions) => send(file, peer, options, context))
  command('receive', 'take files that paired hosts send, until Ctrl-C')
    .argument('[folder]', 'where to put them', '.')
    .action((folder: string, options: MeshCommandOptions) => receive(folder, options, context))
}

function nameOfPeer(text: string): string {
  if (text.trim() === '') throw new InvalidArgumentError('a name or the beginning of a key is wanted.')
  return text
}

function megabytes(text: string): number {
  const value = wholeNumber(text)
  if (value > 1_000) throw new InvalidArgumentError('no host takes more than 1000 for a measurement.')
  return value
}

async function status(options: MeshCommandOptions, { terminal, signal }: CommandContext): Promise<void> {
  await using mesh = await openMesh(options, signal)
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
  for (const { id, name } of pairedHosts(options))
    if (!peers.some((peer) => peer.id === id))
      print(
        `\n${colors.yellow('!')} ${plain(name)}  ${colors.dim(id.slice(0, 16))}  paired, and not here. ${howToJoin}`,
      )
  for (const finding of findings) {
    print()
    printFinding(finding, terminal)
  }
}

async function bench(
  wanted: string | undefined,
  options: MeshCommandOptions & { readonly megabytes: number },
  { terminal, signal }: CommandContext,
): Promise<void> {
  await using mesh = await openMesh(options, signal)
  const failures: unknown[] = []
  for (const peer of chosen(mesh, wanted, options))
    for (const { id } of peer.links) {
      try {
        const link = await mesh.measure(id, { signal, bytes: options.megabytes * 1_000_000 })
        if (options.json === true) printJson({ peer: { id: peer.id, hostname: peer.hostname }, link }, terminal)
        else terminal.print(`${plain(peer.hostname)}  ${linkText(link)}`)
      } catch (error) {
        signal.throwIfAborted()
        failures.push(error)
      }
    }
  // The links after one that failed are measured all the same.
  if (failures.length > 0) throw failures[0]
}
