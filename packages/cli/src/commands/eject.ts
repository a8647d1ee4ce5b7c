import { EGpuError, EGpuErrorCode, EGpuManager } from '@egpu/core'
import type { DisconnectResult, EGpuDevice } from '@egpu/core'
import type { EGpuDriver } from '@egpu/core/driver'
import type { CudaDriver, CudaGuest, CudaOptions, Leaving } from '@egpu/driver-cuda'
import type { Command } from 'commander'
import { CommandError, CommandErrorCode } from '../command-error.ts'
import { observingDrivers, type MachineOptions } from '../machine.ts'
import { agreed } from '../output/agreed.ts'
import { chosenDevice } from '../output/chosen-device.ts'
import { moveReport, printLeavings } from '../output/cuda-text.ts'
import { deviceName } from '../output/device-text.ts'
import { printJson } from '../output/json.ts'
import { inTheWay } from '../output/not-ejected.ts'
import { printPlan, stepReport } from '../output/plan-text.ts'
import type { Terminal } from '../output/terminal.ts'
import { plain } from '../output/text.ts'
import { gpuArgument, jsonOption, sysfsRootOption, yesOption, type CommandContext } from './context.ts'

interface EjectOptions extends MachineOptions {
  readonly json?: boolean | undefined
  /** Do it without asking. */
  readonly yes?: boolean | undefined
}

/** The machine that is ejected from; a test hands over its own. */
export interface EjectWorld {
  readonly drivers: (options: MachineOptions, signal: AbortSignal) => Promise<EGpuDriver[]>
  readonly cuda: CudaOptions
}

/** Tens of gigabytes over a cable, and host memory that may have to be found first. */
const deadlineMs = 30 * 60_000

export function registerEject(
  egpu: Command,
  context: CommandContext,
  world: EjectWorld = { drivers: observingDrivers, cuda: {} },
): void {
  egpu
    .command('eject')
    .argument(...gpuArgument)
    .description('show how a GPU is taken off the bus, and what becomes of the programs on it; then do it')
    .addOption(jsonOption())
    .addOption(sysfsRootOption())
    .addOption(yesOption())
    .action((gpu: string | undefined, options: EjectOptions) => eject(gpu, options, context, world))
}

/**
 * Shows how a GPU is taken off the bus, and does it when asked to or with `--yes`. Throws when it is not safe to unplug afterwards.
 */
async function eject(
  gpu: string | undefined,
  options: EjectOptions,
  { terminal, signal }: CommandContext,
  world: EjectWorld,
): Promise<void> {
  const cuda = (await runsCuda(gpu, options, world, signal)) ? await openCuda(world) : undefined
  const drivers = await world.drivers(options, signal)
  await using manager = await EGpuManager.create({ drivers: cuda === undefined ? drivers : [...drivers, cuda] })
  const device = chosenDevice(manager.externalDevices, manager.devices, gpu)
  if (options.yes !== true) {
    const leavings = cuda === undefined ? [] : await planCuda(device, cuda, world, signal)
    await showPlan(manager, device, leavings, options.json === true, terminal)
    if (options.json === true || !(await agreed(terminal, 'Eject it now?', signal))) return
  }
  const guest = cuda === undefined ? undefined : await addGuest(manager, cuda, world, terminal)
  try {
    const result = await manager.safeDisconnect(device.id, { signal, deadlineMs, onStep: stepReport(terminal) })
    report(result, options.json === true, terminal)
    if (!result.safeToUnplug) throw refusal(result)
  } finally {
    // Who was called back has to run again before we end.
    await guest?.settled()
  }
}

/**
 * Whether NVIDIA's libraries may be asked about the GPU: it is on this machine, with NVIDIA's driver, and awake. A look
 * that opens nothing says so.
 */
async function runsCuda(
  gpu: string | undefined,
  options: EjectOptions,
  world: EjectWorld,
  signal: AbortSignal,
): Promise<boolean> {
  if (options.sysfsRoot !== undefined || process.platform !== 'linux') return false
  await using manager = await EGpuManager.create({ drivers: await world.drivers(options, signal) })
  const { driver, powerState } = chosenDevice(manager.externalDevices, manager.devices, gpu)
  return driver === 'nvidia' && powerState !== 'suspended'
}

async function openCuda({ cuda: options }: EjectWorld): Promise<CudaDriver | undefined> {
  const { cudaDriver } = await import('@egpu/driver-cuda')
  const driver = cudaDriver({ ...options, xidEvents: false })
  const probe = await driver.probe()
  if (probe.usable) return driver
  await driver.close()
  return undefined
}

async function planCuda(
  { identity }: EGpuDevice,
  driver: CudaDriver,
  { cuda }: EjectWorld,
  signal: AbortSignal,
): Promise<readonly Leaving[]> {
  if (identity.uuid === undefined) return []
  const { planCudaLeave } = await import('@egpu/driver-cuda')
  const leavings = await planCudaLeave(identity.uuid, { ...cuda, signal })
  // Our own look would be among the holders.
  await driver.release(identity.uuid)
  return leavings
}

async function addGuest(
  manager: EGpuManager,
  driver: CudaDriver,
  { cuda }: EjectWorld,
  terminal: Terminal,
): Promise<CudaGuest> {
  const { cudaGuest } = await import('@egpu/driver-cuda')
  const onError = (error: unknown): void => terminal.note(`egpu: ${error instanceof Error ? error.message : ''}`)
  const guest = cudaGuest({ ...cuda, driver, onProgress: moveReport(terminal), onError })
  manager.addGuest(guest)
  return guest
}

function report(result: DisconnectResult, json: boolean, terminal: Terminal): void {
  const { print, colors } = terminal
  if (json) printJson(result, terminal)
  else if (result.safeToUnplug) {
    for (const moved of result.moved) print(plain(moved))
    print(colors.green(`It is safe to unplug ${deviceName(result.device)}.`))
    for (const note of result.notes) print(plain(note))
    if (result.moved.some((moved) => moved.endsWith('parked in host memory')))
      print(`What is parked goes on with \`${resumeCommand()}\`, once the GPU is plugged in again.`)
  }
}

/** Who has parked it has to resume it. */
function resumeCommand(): string {
  return process.env['SUDO_UID'] === undefined ? 'egpu resume' : 'sudo egpu resume'
}

function refusal(result: DisconnectResult & { readonly safeToUnplug: false }): Error {
  const { device, holders, vetoes } = result
  const message = `${deviceName(device)} was not ejected: ${inTheWay(result).join('\n  ')}`
  const isHeld = holders.length > 0 || vetoes.length > 0
  return isHeld
    ? new EGpuError(EGpuErrorCode.DeviceBusy, message, { deviceId: device.id })
    : new CommandError(CommandErrorCode.NotDone, message)
}

async function showPlan(
  manager: EGpuManager,
  device: EGpuDevice,
  leavings: readonly Leaving[],
  json: boolean,
  terminal: Terminal,
): Promise<void> {
  const plan = await manager.planDisconnect(device.id)
  if (json) {
    printJson({ ...plan, cuda: leavings }, terminal)
    return
  }
  terminal.print(`To eject ${deviceName(plan.device)}:`)
  printLeavings(leavings, terminal)
  const leaving = new Set(leavings.flatMap(({ processes }) => processes.map(({ pid }) => pid)))
  printPlan({ ...plan.removal, holders: plan.removal.holders.filter(({ pid }) => !leaving.has(pid)) }, terminal)
  if (plan.removal.refusals.length > 0 || leavings.some(({ how }) => how === 'stay'))
    throw new CommandError(CommandErrorCode.NotDone, 'nothing was changed: it cannot be done like this')
}
