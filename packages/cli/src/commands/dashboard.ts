import { InvalidArgumentError, Option, type Command } from 'commander'
import { liveMachine } from '../dashboard/live-machine.ts'
import { pageFiles } from '../dashboard/page-files.ts'
import { startDashboard } from '../dashboard/start.ts'
import { dashboardToken } from '../dashboard/token.ts'
import type { Terminal } from '../output/terminal.ts'
import { printJson } from '../output/json.ts'
import { addLookOptions, type CommandContext, type LookOptions } from './context.ts'

interface DashboardOptions extends LookOptions {
  readonly port: number
  readonly simulate?: boolean | undefined
}

export function registerDashboard(egpu: Command, { terminal, signal }: CommandContext): void {
  addLookOptions(egpu.command('dashboard'))
    .description('show this machine, live, on a page that only this machine can open')
    .option('--port <number>', 'where to listen on 127.0.0.1; 0 for any free port', portNumber, 4780)
    .addOption(
      new Option('--simulate', 'a simulated laptop with cables to pull, instead').conflicts(['from', 'sysfsRoot']),
    )
    .action((options: DashboardOptions) => dashboard(options, terminal, signal))
}

/** Serves the page until `signal` fires. */
async function dashboard(options: DashboardOptions, terminal: Terminal, signal: AbortSignal): Promise<void> {
  await using machine = await openMachine(options, signal)
  await using server = await startDashboard({
    machine,
    token: dashboardToken(),
    port: options.port,
    page: pageFiles(),
  })
  if (options.json === true) printJson({ url: server.url }, terminal)
  else {
    terminal.print(`The dashboard of ${machine.name}: ${terminal.colors.underline(server.url)}`)
    terminal.note('Ctrl-C ends it')
  }
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
}

async function openMachine(options: DashboardOptions, signal: AbortSignal): ReturnType<typeof liveMachine> {
  if (options.simulate !== true) return liveMachine(options, signal)
  const { simulatedMachine } = await import('../dashboard/simulated-machine.ts')
  return simulatedMachine(Date.now() % 1_000_000)
}

function portNumber(text: string): number {
  const port = Number(text)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new InvalidArgumentError('a port is 0 to 65535.')
  return port
}
