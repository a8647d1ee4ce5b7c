import { Command, CommanderError } from 'commander'
import { CommandError, CommandErrorCode } from './command-error.ts'
import type { CommandContext } from './commands/context.ts'
import { ExitCode } from './exit-code.ts'
import { failureJson, failureText } from './output/failure-text.ts'
import { processTerminal, type Terminal } from './output/terminal.ts'
import { version } from './version.ts'

type Register = (egpu: Command, context: CommandContext) => void

/**
 * Every command: what the help says of it, and where it lives. Only the one that is asked for is loaded, because
 * `egpu list` should not pay for the demo.
 */
const commands: Readonly<Record<string, readonly [about: string, load: () => Promise<Register>]>> = {
  list: ['list every GPU and enclosure', async () => (await import('./commands/list.ts')).registerList],
  tree: ['draw how GPUs are connected', async () => (await import('./commands/tree.ts')).registerTree],
  doctor: ['say what works and what does not', async () => (await import('./commands/doctor.ts')).registerDoctor],
  bench: ['measure link and compute', async () => (await import('./commands/bench.ts')).registerBench],
  watch: ['print events as they happen', async () => (await import('./commands/watch.ts')).registerWatch],
  eject: ['take a GPU off the bus', async () => (await import('./commands/eject.ts')).registerEject],
  resume: [
    'put parked programs back onto their GPU',
    async () => (await import('./commands/resume.ts')).registerResume,
  ],
  run: ['start a CUDA program that can be moved', async () => (await import('./commands/run.ts')).registerRun],
  cuda: ['programs on NVIDIA GPUs', async () => (await import('./commands/cuda.ts')).registerCuda],
  passthrough: [
    'hand a GPU to a virtual machine',
    async () => (await import('./commands/passthrough.ts')).registerPassthrough,
  ],
  checkpoints: [
    'look into checkpoints, check and copy them',
    async () => (await import('./commands/checkpoints.ts')).registerCheckpoints,
  ],
  mesh: ['hosts joined by Thunderbolt cables', async () => (await import('./commands/mesh.ts')).registerMesh],
  dump: ['record this machine, to be mailed', async () => (await import('./commands/dump.ts')).registerDump],
  dashboard: ['a live page', async () => (await import('./commands/dashboard.ts')).registerDashboard],
  demo: ['pull a cable in the middle of work', async () => (await import('./commands/demo.ts')).registerDemo],
}

/** `egpu list | head` closes the pipe early, which is the reader's wish; a full disk is a failure. */
function outputFailed(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') process.exit(ExitCode.Ok)
  process.stderr.write(`egpu: what was asked for cannot be written: ${error.message}\n`)
  process.exit(ExitCode.Failed)
}

/** Nobody is left who could be told. */
function notesFailed(): void {}

function guardOutput(): void {
  for (const [stream, listener] of [
    [process.stdout, outputFailed],
    [process.stderr, notesFailed],
  ] as const)
    if (!stream.listeners('error').includes(listener)) stream.on('error', listener)
}

/** Runs one `egpu` command line and resolves to its exit code; never rejects. */
export async function runCli(args: readonly string[], terminal: Terminal = processTerminal()): Promise<number> {
  const stop = new AbortController()
  let endedBy: number | undefined
  let exitCode: number = ExitCode.Ok
  const end = (code: number) => (): void => {
    endedBy = code
    stop.abort(new Error('interrupted'))
  }
  const ends = [
    ['SIGINT', end(ExitCode.Interrupted)],
    ['SIGTERM', end(ExitCode.Terminated)],
    // A terminal that is closed in the middle of an eject must not leave it half done.
    ['SIGHUP', end(ExitCode.HungUp)],
  ] as const
  for (const [name, listener] of ends) process.once(name, listener)
  guardOutput()
  // What stands behind `--` is the command line of another program.
  const asksForJson = args.slice(0, args.includes('--') ? args.indexOf('--') : args.length).includes('--json')
  const complaints: string[] = []
  const context = { terminal, signal: stop.signal, exitWith: (code: number) => void (exitCode = code) }
  try {
    const egpu = await program(args, context, (text) => complaints.push(text))
    await egpu.parseAsync(args, { from: 'user' })
    return endedBy ?? exitCode
  } catch (error) {
    if (endedBy !== undefined) return endedBy
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return ExitCode.Ok
      const wrong = usageError(error)
      terminal.note(asksForJson ? failureJson(wrong) : complaints.join('').trimEnd() || `egpu: ${wrong.message}`)
      return ExitCode.Usage
    }
    terminal.note(asksForJson ? failureJson(error) : `egpu: ${failureText(error)}`)
    return ExitCode.Failed
  } finally {
    for (const [name, listener] of ends) process.off(name, listener)
  }
}

/** Commander's own sentence, of the whole help when a command is missing. */
function usageError({ code, message }: CommanderError): CommandError {
  const sentence = code === 'commander.help' ? 'a command is missing; --help lists them' : message
  return new CommandError(CommandErrorCode.Usage, sentence.replace(/^error: /, ''))
}

async function program(
  args: readonly string[],
  context: CommandContext,
  complain: (text: string) => void,
): Promise<Command> {
  const { terminal } = context
  const egpu = new Command('egpu')
    .description('The truth about external GPUs, and work that survives the cable.')
    .version(version)
    .configureHelp({ minWidthToWrap: 16 })
    .showSuggestionAfterError()
    .showHelpAfterError('(egpu --help lists the commands)')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => terminal.print(text.trimEnd()),
      writeErr: complain,
      getOutHelpWidth: () => terminal.columns,
      getErrHelpWidth: () => terminal.columns,
    })
  // Shells ask with `egpu complete -- <words>`: what they offer depends on all commands and their options.
  const completes = args[0] === 'completion' || args[0] === 'complete'
  for (const [name, [about, load]] of Object.entries(commands)) {
    if (completes || args.includes(name)) (await load())(egpu, context)
    else egpu.command(name).description(about)
  }
  if (args[0] === 'completion' && args[1] === 'bash') {
    // The library's needs the package bash-completion and evaluates what was typed.
    const { bashCompletion } = await import('./output/bash-completion.ts')
    egpu
      .command('completion')
      .argument('<shell>')
      .action(() => terminal.print(bashCompletion))
  } else if (completes) (await import('@bomb.sh/tab/commander')).default(egpu, { completionCommandName: 'completion' })
  else egpu.command('completion').description('print a completion script for bash, zsh, fish or PowerShell')
  return egpu
}
