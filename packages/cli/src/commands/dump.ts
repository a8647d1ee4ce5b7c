import { writeFile } from 'node:fs/promises'
import type { Command } from 'commander'
import type { Terminal } from '../output/terminal.ts'
import { sysfsRootOption, type CommandContext } from './context.ts'

interface DumpOptions {
  readonly output?: string | undefined
  readonly sysfsRoot?: string | undefined
}

export function registerDump(egpu: Command, { terminal, signal }: CommandContext): void {
  egpu
    .command('dump')
    .description('record what this machine looks like, without serial numbers, ids and names, to be mailed')
    .option('-o, --output <file>', 'where to write it (default: standard output)')
    .addHelpText('after', '\nRead it anywhere with: egpu list --from <file>, egpu doctor --from <file>')
    .addOption(sysfsRootOption())
    .action((options: DumpOptions) => dump(options, terminal, signal))
}

/** Writes a recording of the machine. Wakes nothing, and holds nothing that tells whose machine it is. */
async function dump({ output, sysfsRoot }: DumpOptions, terminal: Terminal, signal: AbortSignal): Promise<void> {
  if (process.platform !== 'linux' && sysfsRoot === undefined) {
    throw new Error('only Linux machines can be recorded; on a Mac, `ioreg -a -l > file` makes what --from reads')
  }
  const { recordMachine } = await import('@egpu/driver-linux')
  const recording = await recordMachine({ sysfsRoot, signal })
  const text = JSON.stringify(recording, undefined, 1)
  if (output === undefined) {
    terminal.print(text)
    return
  }
  await writeFile(output, `${text}\n`, { flag: 'wx' })
  terminal.note(`${output} has no serial numbers, unique ids or host names; look through it before you mail it`)
}
