import type { Command } from 'commander'
import type { EGpuManager } from '@egpu/core'
import { openMachine, type MachineOptions } from '../machine.ts'
import { chosenDevice } from '../output/chosen-device.ts'
import { deviceName } from '../output/device-text.ts'
import { printJson } from '../output/json.ts'
import { printPlan, stepReport } from '../output/plan-text.ts'
import type { Terminal } from '../output/terminal.ts'
import { plain } from '../output/text.ts'
import { gpuArgument, jsonOption, sysfsRootOption, yesOption, type CommandContext } from './context.ts'

interface EjectOptions extends MachineOptions {
  readonly json?: boolean | undefined
  /** Really do it. Without, the plan is shown and nothing changes. */
  readonly yes?: boolean | undefined
}

export function registerEject(egpu: Command, { terminal, signal }: CommandContext): void {
  egpu
    .command('eject')
    .argument(...gpuArgument)
    .description('show how a GPU is taken off the bus; with --yes, do it')
    .addOption(jsonOption())
    .addOption(sysfsRootOption())
    .addOption(yesOption())
    .action((gpu: string | undefined, options: EjectOptions) => eject(gpu, options, terminal, signal))
}

/** Shows how a GPU is taken off the bus, and with `--yes` does it. Throws when it is not safe to unplug afterwards. */
async function eject(
  gpu: string | undefined,
  options: EjectOptions,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<void> {
  await using manager = await openMachine(options)
  const device = chosenDevice(manager.externalDevices, manager.devices, gpu)
  if (options.yes !== true) {
    await showPlan(manager, device.id, options.json === true, terminal)
    return
  }
  const result = await manager.safeDisconnect(device.id, { signal, onStep: stepReport(terminal) })
  if (options.json === true) printJson(result, terminal)
  else if (result.safeToUnplug) {
    terminal.print(terminal.colors.green(`It is safe to unplug ${deviceName(device)}.`))
    for (const note of result.notes) terminal.print(plain(note))
  } else {
    for (const { pid, name, holds } of result.holders)
      terminal.print(`held by ${plain(name ?? 'process')} (pid ${pid}): ${plain(holds)}`)
    for (const { guest, reason } of result.vetoes) terminal.print(`${plain(guest)} stays: ${plain(reason)}`)
    for (const refusal of result.refusals) terminal.print(plain(refusal))
  }
  if (!result.safeToUnplug) throw new Error(result.reason)
}

async function showPlan(manager: EGpuManager, id: string, json: boolean, terminal: Terminal): Promise<void> {
  const plan = await manager.planDisconnect(id)
  if (json) {
    printJson(plan, terminal)
    return
  }
  terminal.print(`To eject ${deviceName(plan.device)}:`)
  printPlan(plan.removal, terminal)
  if (plan.removal.refusals.length > 0) throw new Error('nothing was changed: it cannot be done like this')
  terminal.print(terminal.colors.bold('Nothing was changed. Do it with --yes.'))
}
