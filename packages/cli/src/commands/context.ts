import { InvalidArgumentError, Option, type Command } from 'commander'
import type { MachineOptions } from '../machine.ts'
import type { Terminal } from '../output/terminal.ts'

/** What a command is given besides its own arguments. */
export interface CommandContext {
  readonly terminal: Terminal
  /** Fires at Ctrl-C, SIGTERM and SIGHUP; whatever waits ends then. */
  readonly signal: AbortSignal
  /** Ends the process with this code although nothing was thrown. */
  readonly exitWith: (code: number) => void
}

export const jsonOption = (): Option => new Option('--json', 'print JSON')
export const sysfsRootOption = (): Option =>
  new Option('--sysfs-root <dir>', 'read a recorded machine from this directory instead of /sys')

/** What every command takes that only looks, at this machine or at a recorded one. */
export interface LookOptions extends MachineOptions {
  readonly json?: boolean | undefined
}

export function addLookOptions(command: Command): Command {
  const about = "read what `egpu dump` wrote, or a Mac's `ioreg -a -l`, instead; - for standard input"
  const from = new Option('--from <file>', about)
  return command.addOption(jsonOption()).addOption(sysfsRootOption()).addOption(from.conflicts('sysfsRoot'))
}

export const yesOption = (): Option => new Option('--yes', 'do it without asking')

export const gpuArgument = ['[gpu]', 'id or PCI address; the only external GPU when left out'] as const

export function wholeNumber(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value) || value < 1) throw new InvalidArgumentError('a whole number from 1 up is wanted.')
  return value
}
