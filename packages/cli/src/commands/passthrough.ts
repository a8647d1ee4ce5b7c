import type { Command } from 'commander'
import type { EGpuDevice, PassthroughPlan } from '@egpu/core'
import type { EGpuDriver, PassthroughCapability } from '@egpu/core/driver'
import { EGpuError, EGpuErrorCode, EGpuManager } from '@egpu/core'
import { CommandError, CommandErrorCode } from '../command-error.ts'
import { observingDrivers, type MachineOptions } from '../machine.ts'
import { agreed } from '../output/agreed.ts'
import { chosenDevice } from '../output/chosen-device.ts'
import { deviceName } from '../output/device-text.ts'
import { printJson } from '../output/json.ts'
import { printPlan, stepReport } from '../output/plan-text.ts'
import type { Terminal } from '../output/terminal.ts'
import { wrap } from '../output/text.ts'
import { gpuArgument, jsonOption, sysfsRootOption, yesOption, type CommandContext } from './context.ts'

interface PassthroughOptions extends MachineOptions {
  readonly json?: boolean | undefined
  readonly yes?: boolean | undefined
}

const actions = { plan: 'show what would be done', bind: 'bind it to vfio-pci', release: 'give it back' } as const

export function registerPassthrough(egpu: Command, { terminal, signal }: CommandContext): void {
  const vm = egpu.command('passthrough').description('hand a GPU to a virtual machine and take it back')
  for (const action of ['plan', 'bind', 'release'] as const) {
    const command = vm
      .command(action)
      .argument(...gpuArgument)
      .description(actions[action])
      .addOption(jsonOption())
      .addOption(sysfsRootOption())
      .action((gpu: string | undefined, options: PassthroughOptions) =>
        passthrough(action, gpu, options, terminal, signal),
      )
    if (action !== 'plan') command.addOption(yesOption())
  }
}

/** Hands a GPU to a virtual machine, or takes it back. Shows the plan, and changes something only when asked to, or with `--yes`. */
async function passthrough(
  action: keyof typeof actions,
  gpu: string | undefined,
  options: PassthroughOptions,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<void> {
  const drivers = await observingDrivers(options, signal)
  await using manager = await EGpuManager.create({ drivers })
  const device = chosenDevice(manager.externalDevices, manager.devices, gpu)
  const { capability, key } = capabilityFor(device, drivers)
  const onStep = stepReport(terminal)
  if (action === 'release') {
    if (options.yes !== true) {
      terminal.print(`${deviceName(device)} would go back to its own driver.`)
      if (!(await agreed(terminal, 'Give it back now?', signal))) return
    }
    finish(
      await capability.release(key, { signal, onStep }),
      `${deviceName(device)} is back with its own driver.`,
      terminal,
    )
    return
  }
  const plan = await capability.plan(key, { signal })
  if (action === 'plan' || options.yes !== true) {
    if (options.json === true) printJson(plan, terminal)
    else showPlan(device, plan, terminal)
    if (action === 'plan' || options.json === true || !(await agreed(terminal, 'Bind it now?', signal))) return
  }
  finish(
    await capability.bind(plan, { signal, onStep }),
    `${deviceName(device)} is ready for a virtual machine.`,
    terminal,
  )
  terminal.print(plan.qemuArguments.join(' '))
}

function capabilityFor(
  device: EGpuDevice,
  drivers: readonly EGpuDriver[],
): { readonly capability: PassthroughCapability; readonly key: string } {
  for (const { driver: name, key } of device.sources) {
    const capability = drivers.find((driver) => driver.name === name)?.passthrough
    if (capability !== undefined) return { capability, key }
  }
  throw new EGpuError(
    EGpuErrorCode.NotSupported,
    `no driver can pass ${deviceName(device)} to a virtual machine here`,
    { deviceId: device.id },
  )
}

function showPlan(device: EGpuDevice, plan: PassthroughPlan, terminal: Terminal): void {
  const title = `To pass ${deviceName(device)} to a virtual machine (${plan.functions.join(', ')} go together):`
  terminal.print(wrap(title, terminal.columns, ''))
  printPlan(plan, terminal)
  terminal.print(`\nfor QEMU\n${plan.qemuArguments.join(' ')}\n\nfor libvirt\n${plan.libvirtXml}`)
}

function finish(
  outcome: Awaited<ReturnType<PassthroughCapability['bind']>>,
  success: string,
  { print, colors }: Terminal,
): void {
  if (outcome.done) print(colors.green(success))
  else if (outcome.holders.length > 0) throw new EGpuError(EGpuErrorCode.DeviceBusy, outcome.reason)
  else throw new CommandError(CommandErrorCode.NotDone, outcome.reason)
}
