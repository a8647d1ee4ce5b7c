import type { Command } from 'commander'
import type { EGpuManager } from '@egpu/core'
import { machineFacts, openMachine, type MachineFacts } from '../machine.ts'
import { printDevice, printEnclosure, printFinding } from '../output/device-text.ts'
import { printJson } from '../output/json.ts'
import type { Terminal } from '../output/terminal.ts'
import { addLookOptions, type CommandContext, type LookOptions } from './context.ts'

export function registerList(egpu: Command, { terminal, signal }: CommandContext): void {
  addLookOptions(egpu.command('list'))
    .description('list every GPU with its verdict, the enclosures, and what is wrong')
    .action((options: LookOptions) => list(options, terminal, signal))
}

/** Prints every GPU of the machine with its verdict, the enclosures, and what is wrong. */
async function list(options: LookOptions, terminal: Terminal, signal: AbortSignal): Promise<void> {
  await using manager = await openMachine(options, signal)
  if (options.json === true) printJson(listing(manager, machineFacts(options)), terminal)
  else printListing(manager, terminal)
}

/** What `list --json` prints; `devices` are `EGpuDevice`s, external or not. */
export function listing(manager: EGpuManager, machine: MachineFacts): object {
  const { devices, enclosures, findings } = manager
  return { machine, devices, enclosures, findings }
}

export function printListing({ devices, enclosures, findings }: EGpuManager, terminal: Terminal): void {
  const { colors, print } = terminal
  const external = devices.filter(({ verdict }) => verdict.conclusion === 'external')
  print(
    colors.bold(
      `${count(devices.length, 'GPU')}, ${external.length} external; ${count(enclosures.length, 'enclosure')}`,
    ),
  )
  for (const device of [...external, ...devices.filter((device) => !external.includes(device))]) {
    print()
    printDevice(device, terminal)
  }
  const occupied = new Set(devices.map(({ enclosureId }) => enclosureId))
  for (const enclosure of enclosures.filter(({ id }) => !occupied.has(id))) {
    print()
    printEnclosure(enclosure, terminal)
  }
  for (const finding of findings) {
    print()
    printFinding(finding, terminal)
  }
}

const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`
