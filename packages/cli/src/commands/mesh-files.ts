import { access, constants, opendir, stat } from 'node:fs/promises'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { receiveFiles, sendFile } from '@egpu/mesh'
import { InvalidArgumentError } from 'commander'
import { printJson } from '../output/json.ts'
import { plain } from '../output/text.ts'
import type { CommandContext } from './context.ts'
import { chosen, openMesh, pairedHosts, type MeshCommandOptions } from './mesh-host.ts'

export async function send(
  file: string,
  wanted: string | undefined,
  options: MeshCommandOptions,
  { terminal, signal }: CommandContext,
): Promise<void> {
  // What cannot be sent is said before anybody is looked for.
  if (!(await stat(file)).isFile()) throw new InvalidArgumentError(`${file} is no file; only files can be sent.`)
  await access(file, constants.R_OK)
  await using mesh = await openMesh(options, signal)
  const peers = chosen(mesh, wanted, options)
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

export async function receive(
  folder: string,
  options: MeshCommandOptions,
  { terminal, signal }: CommandContext,
): Promise<void> {
  await (await opendir(folder)).close()
  await access(folder, constants.W_OK)
  // Whoever finds us may send at once, so nothing is waited for before files are taken.
  await using mesh = await openMesh(options, signal, { visitor: false, settleMs: 0 })
  receiveFiles(mesh.control, folder, (file) => {
    if (options.json === true) printJson({ received: file }, terminal)
    else {
      const links = Object.keys(file.bytesPerLink).length
      const over = links > 1 ? ` over ${links} links` : ''
      // Whoever sends and leaves is no peer.
      const sender = pairedHosts(options).find(({ id }) => id === file.from)
      const from = sender === undefined ? file.from.slice(0, 16) : plain(sender.name)
      terminal.print(`${plain(file.name)}: ${file.byteLength} bytes from ${from}${over}`)
    }
  })
  terminal.note('Waiting for files; Ctrl-C ends it.')
  await new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true })
    if (signal.aborted) resolve()
  })
}
