import { writeFile } from 'node:fs/promises'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { RegistrySource } from '@egpu/driver-macos'
import type { Command } from 'commander'
import { printJson } from '../output/json.ts'
import { jsonOption, sysfsRootOption, type CommandContext } from './context.ts'

interface DumpOptions {
  readonly json?: boolean | undefined
  readonly output?: string | undefined
  readonly sysfsRoot?: string | undefined
}

/** The machine that is recorded; a test hands over its own. */
export interface DumpWorld {
  readonly platform: NodeJS.Platform
  /** A Mac's registry, best first. */
  readonly macSources: () => Promise<readonly RegistrySource[]>
}

/** The program does what the native module does, where that cannot be had. */
async function macSources(): Promise<readonly RegistrySource[]> {
  const { ioregSource, iokitSource } = await import('@egpu/driver-macos')
  return [iokitSource(), ioregSource()]
}

export function registerDump(
  egpu: Command,
  context: CommandContext,
  world: DumpWorld = { platform: process.platform, macSources },
): void {
  egpu
    .command('dump')
    .description('record what this machine looks like, without serial numbers, ids and names, to be mailed')
    .option('-o, --output <file>', 'where to write it (default: standard output)')
    .addHelpText('after', '\nRead it anywhere with: egpu list --from <file>, egpu doctor --from <file>')
    .addOption(jsonOption())
    .addOption(sysfsRootOption())
    .action((options: DumpOptions) => dump(options, context, world))
}

/** Writes a recording of the machine. Wakes nothing, and holds nothing that tells whose machine it is. */
async function dump(
  { output, sysfsRoot, json = false }: DumpOptions,
  { terminal, signal }: CommandContext,
  world: DumpWorld,
): Promise<void> {
  const text = await recording(sysfsRoot, world, signal)
  if (output === undefined) {
    terminal.print(text)
    return
  }
  await writeFile(output, `${text}\n`, { flag: 'wx' })
  if (json) printJson({ output }, terminal)
  else terminal.note(`${output} has no serial numbers, unique ids or host names; look through it before you mail it`)
}

async function recording(
  sysfsRoot: string | undefined,
  { platform, macSources: sources }: DumpWorld,
  signal: AbortSignal,
): Promise<string> {
  if (platform === 'darwin' && sysfsRoot === undefined) return (await recordingOfMac(await sources(), signal)).trimEnd()
  const { linuxDriver, recordMachine } = await import('@egpu/driver-linux')
  await using driver = linuxDriver({ sysfsRoot })
  const probe = await driver.probe({ signal })
  if (!probe.usable) throw new EGpuError(EGpuErrorCode.DriverUnavailable, `there is nothing to record: ${probe.reason}`)
  return JSON.stringify(await recordMachine({ sysfsRoot, signal }), undefined, 1)
}

async function recordingOfMac(sources: readonly RegistrySource[], signal: AbortSignal): Promise<string> {
  const { recordMac } = await import('@egpu/driver-macos')
  const reasons: string[] = []
  for (const source of sources) {
    await using own = source
    const probe = await own.probe({ signal })
    if (probe.usable) return await recordMac({ source: own, signal })
    reasons.push(`${own.name}: ${probe.reason}`)
  }
  throw new EGpuError(EGpuErrorCode.NativeUnavailable, `this Mac cannot be looked at\n  ${reasons.join('\n  ')}`)
}
