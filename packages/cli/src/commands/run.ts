import { constants } from 'node:os'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { CudaDriverOptions } from '@egpu/driver-cuda'
import type { Command } from 'commander'
import { didYouMean } from '../output/closest.ts'
import { plain } from '../output/text.ts'
import type { CommandContext } from './context.ts'

interface RunOptions {
  readonly gpu?: string | undefined
}

export function registerRun(egpu: Command, context: CommandContext, world: CudaDriverOptions = {}): void {
  egpu
    .command('run')
    .usage('[--gpu <gpu>] -- <command> [arguments]')
    .argument('<command...>')
    .description('start a CUDA program so that it can be parked and moved; ends as it ends')
    .option('--gpu <gpu>', 'the one GPU it may see, by UUID or PCI address: then it can be moved off it')
    .action(([command = '', ...args]: readonly string[], options: RunOptions) =>
      run(command, args, options, context, world),
    )
}

async function run(
  command: string,
  args: readonly string[],
  { gpu }: RunOptions,
  { terminal, signal, exitWith }: CommandContext,
  world: CudaDriverOptions,
): Promise<void> {
  const { runMovable } = await import('@egpu/driver-cuda')
  const uuid = gpu === undefined ? undefined : await uuidOf(gpu, world)
  try {
    const result = await runMovable(command, args, {
      signal,
      gpu: uuid,
      onStart: (pid) => terminal.note(`egpu: pid ${pid}; \`egpu eject\` parks or moves it`),
    })
    // As shells tell that a signal ended a program.
    exitWith('exitCode' in result ? result.exitCode : 128 + constants.signals[result.endedBy])
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException
    if (syscall?.startsWith('spawn') !== true) throw error
    // As `env`, `nohup` and `timeout` tell it (POSIX).
    const isMissing = code === 'ENOENT'
    terminal.note(`egpu: ${plain(command)} ${isMissing ? 'was not found' : `cannot be started (${code})`}`)
    exitWith(isMissing ? 127 : 126)
  }
}

async function uuidOf(gpu: string, world: CudaDriverOptions): Promise<string> {
  const { cudaDriver } = await import('@egpu/driver-cuda')
  await using driver = cudaDriver(world)
  const { devices } = await driver.list()
  const found = devices.find(
    ({ key, identity }) => key === gpu || identity.pciAddress === gpu || identity.pciAddress === `0000:${gpu}`,
  )
  if (found !== undefined) return found.key
  const offer = devices.map(({ key, identity }) => `\n  ${identity.pciAddress ?? ''}  ${key}`).join('')
  const near = didYouMean(
    gpu,
    devices.flatMap(({ key, identity }) => [key, identity.pciAddress ?? []].flat()),
  )
  throw new EGpuError(
    EGpuErrorCode.DeviceNotFound,
    `no NVIDIA GPU is called ${gpu}${near}; there are:${offer || ' none that is awake'}`,
  )
}
