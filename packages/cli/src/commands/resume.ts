import type { CudaOptions, Resumption } from '@egpu/driver-cuda'
import type { Command } from 'commander'
import { ExitCode } from '../exit-code.ts'
import { moveReport, programNames } from '../output/cuda-text.ts'
import { printJson } from '../output/json.ts'
import { plain } from '../output/text.ts'
import { jsonOption, type CommandContext } from './context.ts'

interface ResumeOptions {
  readonly json?: boolean | undefined
}

export function registerResume(egpu: Command, context: CommandContext, world: CudaOptions = {}): void {
  egpu
    .command('resume')
    .description('put parked programs back onto their GPU, once it is plugged in again')
    .addOption(jsonOption())
    .action((options: ResumeOptions) => resume(options, context, world))
}

async function resume(
  { json }: ResumeOptions,
  { terminal, signal, exitWith }: CommandContext,
  world: CudaOptions,
): Promise<void> {
  const { resumeParked } = await import('@egpu/driver-cuda')
  const resumptions = await resumeParked({ ...world, signal, onProgress: moveReport(terminal) })
  if (resumptions.some(({ resumed }) => !resumed)) exitWith(ExitCode.Failed)
  if (json === true) return printJson(resumptions.map(withMessage), terminal)
  if (resumptions.length === 0) terminal.print(nobody())
  for (const resumption of resumptions) {
    const names = programNames(resumption.processes)
    terminal.print(resumption.resumed ? `${names} runs again` : `${names} stays parked: ${messageOf(resumption)}`)
  }
}

/** Who parks is who can resume: what root has parked is noted where only root can read. */
function nobody(): string {
  if (process.getuid?.() === 0) return 'No program is parked.'
  return 'You have parked no program. What root has parked, as by `sudo egpu eject`, goes on with `sudo egpu resume`.'
}

function messageOf({ error }: Resumption & { readonly resumed: false }): string {
  return plain(error instanceof Error ? error.message : String(error))
}

function withMessage(resumption: Resumption): object {
  return resumption.resumed ? resumption : { ...resumption, error: messageOf(resumption) }
}
