import { access, constants, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { systemClock, type EGpuEvent } from '@egpu/core'
import { InvalidArgumentError, type Command } from 'commander'
import { CommandError, CommandErrorCode } from '../command-error.ts'
import { webGpuBacking, type WebGpuBacking } from '../demo/backing.ts'
import { fieldInTerminal, fieldPng } from '../demo/picture.ts'
import { runScenario, sha256, undisturbedField, type ScenarioResult } from '../demo/scenario.ts'
import { machineFacts, openMachine } from '../machine.ts'
import { eventText } from '../output/event-text.ts'
import { printJson } from '../output/json.ts'
import { progressReport } from '../output/progress.ts'
import type { Terminal } from '../output/terminal.ts'
import { withRuntimeDirectory } from '../probe/runtime-directory.ts'
import { jsonOption, wholeNumber, type CommandContext } from './context.ts'
import { listing, printListing } from './list.ts'

interface DemoOptions {
  readonly seed?: number | undefined
  readonly size: number
  readonly steps: number
  readonly webgpu: boolean
  readonly json?: boolean | undefined
  readonly realLoss?: boolean | undefined
  readonly png?: string | undefined
}

export function registerDemo(egpu: Command, { terminal, signal }: CommandContext): void {
  egpu
    .command('demo')
    .description('compute on an external GPU, pull its cable, and finish with the same result')
    .addOption(jsonOption())
    .option('--seed <number>', 'makes the run repeatable (default: another one each time)', wholeNumber)
    .option('--size <cells>', 'edge of the square field, 4096 at most', fieldSize, 512)
    .option('--steps <number>', 'steps to compute', wholeNumber, 3_000)
    .option('--no-webgpu', 'compute on the simulator alone')
    .option('--real-loss', 'make the Vulkan driver lose the device instead of destroying it (needs a C compiler)')
    .option('--png <file>', 'where to write the picture (default: a temporary file)')
    .action((options: DemoOptions) => withRuntimeDirectory(() => demo(options, terminal, signal)))
}

function fieldSize(text: string): number {
  const value = wholeNumber(text)
  if (value > 4_096) throw new InvalidArgumentError('4096 is the largest field.')
  return value
}

/** The main job, with everything shown: what is on this machine, the computation, the pulled cable, the comparison. */
async function demo(options: DemoOptions, terminal: Terminal, signal: AbortSignal): Promise<void> {
  const { seed = Date.now() % 1_000_000, size, steps, json = false } = options
  // Before the work rather than after it.
  await access(options.png === undefined ? tmpdir() : dirname(options.png), constants.W_OK)
  await showMachine(json, terminal, signal)

  const webGpu = await chooseBacking(options)
  const say = (line: string): void => (json ? undefined : terminal.print(line))
  try {
    say(`\n${terminal.colors.bold('A field is computed on an external GPU, and its cable is pulled.')}`)
    say(
      webGpu.backing === undefined
        ? `The GPU is simulated, with memory that holds real bytes (${webGpu.reason}).`
        : `The enclosure is simulated; behind it works WebGPU on ${webGpu.adapter.name}, whose device is ${webGpu.loss} when the cable is pulled.`,
    )
    say(`Field ${size} x ${size}, ${steps} steps, seed ${seed} (--seed ${seed} repeats this run)\n`)

    const begun = performance.now()
    const events: EGpuEvent[] = []
    const result = await runScenario({
      seed,
      size,
      steps,
      clock: systemClock,
      batch: 20,
      checkpointIntervalMs: 300,
      failBackAfterMs: 400,
      cpuStepMs: 0,
      gpuStepMs: 0.5,
      backing: webGpu.backing,
      signal,
      onEvent: (event) => {
        events.push(event)
        if (json) printJson(event, terminal)
      },
      onProgress: progressReport('steps', steps, terminal),
    })
    const elapsedMs = performance.now() - begun
    terminal.progress('the same field once more, undisturbed, on the processor')
    const referenceSha256 = sha256(undisturbedField(size, seed, steps))
    // Only now, so that a run that is ended leaves nothing.
    const png = options.png ?? join(await mkdtemp(join(tmpdir(), 'egpu-demo-')), `field-${seed}.png`)
    await writeFile(png, fieldPng(result.field, size))

    const identical = result.sha256 === referenceSha256
    if (json) {
      printJson(
        {
          identical,
          referenceSha256,
          resultSha256: result.sha256,
          lostSteps: result.lostSteps,
          rtoMs: result.rtoMs,
          targets: result.targets,
          seed,
          size,
          steps,
          elapsedMs,
          webgpu: webGpu.backing !== undefined,
          png,
        },
        terminal,
      )
    } else {
      showTimeline(events, terminal)
      showResult(result, referenceSha256, size, png, terminal)
    }
    if (!identical) {
      const message = `the results differ: ${result.sha256} instead of ${referenceSha256}`
      throw new CommandError(CommandErrorCode.ResultsDiffer, message)
    }
  } finally {
    await webGpu.close()
  }
}

async function showMachine(json: boolean, terminal: Terminal, signal: AbortSignal): Promise<void> {
  await using manager = await openMachine({}, signal)
  if (json) printJson(listing(manager, machineFacts({})), terminal)
  else {
    terminal.print(terminal.colors.bold('This machine'))
    printListing(manager, terminal)
  }
}

function chooseBacking({ webgpu, realLoss = false }: DemoOptions): Promise<WebGpuBacking> {
  if (webgpu) return webGpuBacking({ realLoss })
  return Promise.resolve({ backing: undefined, reason: 'asked for with --no-webgpu', close: () => Promise.resolve() })
}

const milestones: ReadonlySet<string> = new Set([
  'leaving',
  'lost',
  'disconnected',
  'connected',
  'returned',
  'migration-started',
  'migration-completed',
  'migration-failed',
])

function showTimeline(events: readonly EGpuEvent[], terminal: Terminal): void {
  const { colors, print } = terminal
  const zero = events[0]?.atMs ?? 0
  print(colors.bold('What happened'))
  for (const event of events.filter(({ type }) => milestones.has(type))) {
    const seconds = ((event.atMs - zero) / 1_000).toFixed(3).padStart(8)
    const paint = event.type === 'lost' || event.type === 'migration-failed' ? colors.red : (text: string) => text
    print(`${colors.dim(`${seconds} s`)}  ${paint(eventText(event))}`)
  }
  const saved = events.filter(({ type }) => type === 'checkpoint-saved').length
  print(colors.dim(`           ${saved} checkpoints were saved meanwhile`))
}

function showResult(result: ScenarioResult, reference: string, size: number, png: string, terminal: Terminal): void {
  const { colors, print } = terminal
  print()
  print(`ran on       ${result.targets.join(' → ')}`)
  print(
    `back at work ${result.rtoMs.toFixed(0)} ms after the cable was pulled (RTO), ${result.lostSteps} steps computed again`,
  )
  print(`result       ${result.sha256}`)
  print(`undisturbed  ${reference}`)
  print(result.sha256 === reference ? colors.green('identical: nothing was lost') : colors.red('DIFFERENT'))
  if (terminal.hasTrueColor) for (const line of fieldInTerminal(result.field, size, terminal)) print(line)
  print(`picture      ${png}`)
}
