import type { CudaOptions, Recovery } from '@egpu/driver-cuda'
import type { Command } from 'commander'
import { ExitCode } from '../exit-code.ts'
import { bytesText } from '../output/bytes-text.ts'
import { programName, stateText } from '../output/cuda-text.ts'
import { printJson } from '../output/json.ts'
import { plain } from '../output/text.ts'
import { jsonOption, type CommandContext } from './context.ts'

interface JsonChoice {
  readonly json?: boolean | undefined
}

export function registerCuda(egpu: Command, context: CommandContext, world: CudaOptions = {}): void {
  const cuda = egpu.command('cuda').description('programs that compute on NVIDIA GPUs')
  cuda
    .command('list')
    .description('who computes where, and whether it can be moved')
    .addOption(jsonOption())
    .action((options: JsonChoice) => list(options, context, world))
  cuda
    .command('recover')
    .description('set to work again what a crash left stopped; what was parked on purpose stays parked')
    .addOption(jsonOption())
    .action((options: JsonChoice) => recover(options, context, world))
}

async function list({ json }: JsonChoice, { terminal, signal }: CommandContext, world: CudaOptions): Promise<void> {
  const { listCudaProcesses } = await import('@egpu/driver-cuda')
  const processes = await listCudaProcesses({ ...world, signal })
  if (json === true) return printJson(processes, terminal)
  if (processes.length === 0) terminal.print('No program computes on an NVIDIA GPU.')
  for (const process of processes) {
    const { memory, user, checkpointable } = process
    const where = memory.map(({ uuid, bytes }) => `${bytes === undefined ? 'memory' : bytesText(bytes)} on ${uuid}`)
    terminal.print(`${programName(process)}${user === undefined ? '' : ` of ${plain(user)}`}: ${where.join(', ')}`)
    terminal.print(`  ${stateText(process)}`)
    if (!checkpointable.possible) {
      for (const { reason } of checkpointable.reasons) terminal.print(`  cannot be moved: ${plain(reason)}`)
    }
  }
}

const outcomes: Readonly<Record<Recovery['outcome'], string>> = {
  running: 'runs',
  parked: 'is parked; `egpu resume` sets it to work',
  ended: 'has ended',
  busy: 'is being moved by another process',
  held: 'could not be set to work',
}

async function recover(
  { json }: JsonChoice,
  { terminal, signal, exitWith }: CommandContext,
  world: CudaOptions,
): Promise<void> {
  const { recoverCudaProcesses } = await import('@egpu/driver-cuda')
  const recoveries = await recoverCudaProcesses({ ...world, signal })
  if (recoveries.some(({ outcome }) => outcome === 'held')) exitWith(ExitCode.Failed)
  if (json === true) return printJson(recoveries.map(withMessage), terminal)
  if (recoveries.length === 0) terminal.print('Nothing was left stopped.')
  for (const recovery of recoveries) {
    const why = recovery.error instanceof Error ? `: ${plain(recovery.error.message)}` : ''
    terminal.print(`${programName(recovery)} ${outcomes[recovery.outcome]}${why}`)
  }
}

/** Errors have no fields of their own that JSON would show. */
function withMessage({ error, ...recovery }: Recovery): object {
  return error instanceof Error ? { ...recovery, error: error.message } : recovery
}
