import type { Command } from 'commander'
import { openMachine, type MachineOptions } from '../machine.ts'
import { eventText } from '../output/event-text.ts'
import { printJson } from '../output/json.ts'
import type { Terminal } from '../output/terminal.ts'
import { jsonOption, sysfsRootOption, type CommandContext } from './context.ts'

interface WatchOptions extends MachineOptions {
  readonly json?: boolean | undefined
}

export function registerWatch(egpu: Command, { terminal, signal }: CommandContext): void {
  egpu
    .command('watch')
    .description('print plugs, unplugs and everything else as it happens')
    .addOption(jsonOption())
    .addOption(sysfsRootOption())
    .action((options: WatchOptions) => watch(options, terminal, signal))
}

/** Prints every event as it comes, until `signal` fires. Starts with what is there now. */
async function watch(options: WatchOptions, terminal: Terminal, signal: AbortSignal): Promise<void> {
  await using manager = await openMachine(options, signal)
  const events = manager.events({ signal })
  await manager.startMonitoring({ signal })
  if (options.json !== true)
    terminal.note(
      `watching ${manager.devices.length} GPU(s), ${manager.externalDevices.length} external; Ctrl-C ends it`,
    )
  for await (const event of events) {
    if (options.json === true) printJson({ time: new Date().toISOString(), ...event }, terminal)
    else terminal.print(`${terminal.colors.dim(new Date().toISOString().slice(11, 23))} ${eventText(event)}`)
  }
}
