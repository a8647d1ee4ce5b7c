import { EGpuError } from '@egpu/core'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { demo } from './commands/demo.ts'
import { doctor } from './commands/doctor.ts'
import { eject } from './commands/eject.ts'
import { list } from './commands/list.ts'
import { passthrough } from './commands/passthrough.ts'
import { watch } from './commands/watch.ts'
import { processTerminal, type Terminal } from './output/terminal.ts'
import { version } from './version.ts'

/** What the process ends with. Stable: scripts may rely on it. */
export const ExitCode = {
  Ok: 0,
  /** It was tried and did not work; stderr says why. */
  Failed: 1,
  /** The command line was wrong. */
  Usage: 2,
  /** Ended by Ctrl-C (SIGINT). */
  Interrupted: 130,
  /** Ended by SIGTERM. */
  Terminated: 143,
} as const

/** Runs one `egpu` command line and resolves to its exit code; never rejects. */
export async function runCli(args: readonly string[], terminal: Terminal = processTerminal()): Promise<number> {
  const stop = new AbortController()
  let endedBy: number | undefined
  const end = (code: number) => (): void => {
    endedBy = code
    stop.abort(new Error('interrupted'))
  }
  const interrupt = end(ExitCode.Interrupted)
  const terminate = end(ExitCode.Terminated)
  process.once('SIGINT', interrupt)
  process.once('SIGTERM', terminate)
  // `egpu list | head` closes the pipe early: that is the reader's wish, not a failure.
  process.stdout.once('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit(ExitCode.Ok)
  })
  try {
    await program(terminal, stop.signal).parseAsync(args, { from: 'user' })
    return endedBy ?? ExitCode.Ok
  } catch (error) {
    if (endedBy !== undefined) return endedBy
    if (error instanceof CommanderError) return error.exitCode === 0 ? ExitCode.Ok : ExitCode.Usage
    terminal.note(`egpu: ${failureText(error)}`)
    return ExitCode.Failed
  } finally {
    process.off('SIGINT', interrupt)
    process.off('SIGTERM', terminate)
  }
}

function program(terminal: Terminal, signal: AbortSignal): Command {
  const egpu = new Command('egpu')
    .description('The truth about external GPUs, and work that survives the cable.')
    .version(version)
    .showSuggestionAfterError()
    .showHelpAfterError('(egpu --help lists the commands)')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => terminal.print(text.trimEnd()),
      writeErr: (text) => terminal.note(text.trimEnd()),
    })

  const json = (): Option => new Option('--json', 'print JSON')
  const sysfsRoot = (): Option =>
    new Option('--sysfs-root <dir>', 'read a recorded machine from this directory instead of /sys')
  const from = (): Option =>
    new Option('--from <file>', "read a Mac's `ioreg -a -l` dump instead of this machine").conflicts('sysfsRoot')

  const yes = (): Option => new Option('--yes', 'change the system; without it the plan is shown')

  egpu
    .command('list')
    .description('list every GPU with its verdict, the enclosures, and what is wrong')
    .addOption(json())
    .addOption(sysfsRoot())
    .addOption(from())
    .action((options: Parameters<typeof list>[0]) => list(options, terminal))

  egpu
    .command('watch')
    .description('print plugs, unplugs and everything else as it happens')
    .addOption(json())
    .addOption(sysfsRoot())
    .action((options: Parameters<typeof watch>[0]) => watch(options, terminal, signal))

  egpu
    .command('doctor')
    .description('say what is connected, what works, and what to do about the rest')
    .addOption(json())
    .addOption(sysfsRoot())
    .addOption(from())
    .action((options: Parameters<typeof doctor>[0]) => doctor(options, terminal))

  egpu
    .command('eject')
    .argument('[gpu]', 'id or PCI address; the only external GPU when left out')
    .description('show how a GPU is taken off the bus; with --yes, do it')
    .addOption(json())
    .addOption(sysfsRoot())
    .addOption(yes())
    .action((gpu: string | undefined, options: Parameters<typeof eject>[1]) => eject(gpu, options, terminal, signal))

  const vm = egpu.command('passthrough').description('hand a GPU to a virtual machine and take it back')
  const actions = { plan: 'show what would be done', bind: 'bind it to vfio-pci', release: 'give it back' } as const
  for (const action of ['plan', 'bind', 'release'] as const) {
    const command = vm
      .command(action)
      .argument('[gpu]', 'id or PCI address; the only external GPU when left out')
      .description(actions[action])
      .addOption(json())
      .addOption(sysfsRoot())
      .action((gpu: string | undefined, options: Parameters<typeof passthrough>[2]) =>
        passthrough(action, gpu, options, terminal, signal),
      )
    if (action !== 'plan') command.addOption(yes())
  }

  egpu
    .command('demo')
    .description('compute on an external GPU, pull its cable, and finish with the same result')
    .addOption(json())
    .option('--seed <number>', 'makes the run repeatable (default: another one each time)', wholeNumber)
    .option('--size <cells>', 'edge of the square field, 4096 at most', fieldSize, 512)
    .option('--steps <number>', 'steps to compute', wholeNumber, 3_000)
    .option('--no-webgpu', 'compute on the simulator alone')
    .option('--real-loss', 'make the Vulkan driver lose the device instead of destroying it (needs a C compiler)')
    .option('--png <file>', 'where to write the picture (default: a temporary file)')
    .action((options: Parameters<typeof demo>[0]) => demo(options, terminal, signal))

  return egpu
}

function wholeNumber(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value) || value < 1) throw new InvalidArgumentError('a whole number from 1 up is wanted.')
  return value
}

function fieldSize(text: string): number {
  const value = wholeNumber(text)
  if (value > 4_096) throw new InvalidArgumentError('4096 is the largest field.')
  return value
}

/** The code goes behind the first line, so that a list below it stays a list. */
function failureText(error: unknown): string {
  if (!EGpuError.is(error)) return error instanceof Error ? error.message : String(error)
  const [first, ...rest] = error.message.split('\n')
  return [`${first} [${error.code}]`, ...rest].join('\n')
}
