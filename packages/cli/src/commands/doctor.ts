import type { Command } from 'commander'
import type { EGpuManager, Finding } from '@egpu/core'
import { machineFacts, openMachine } from '../machine.ts'
import { deviceName, linkText, printFinding, verdictText } from '../output/device-text.ts'
import { printJson } from '../output/json.ts'
import type { Terminal } from '../output/terminal.ts'
import { plain, wrap } from '../output/text.ts'
import { ExitCode } from '../exit-code.ts'
import { addLookOptions, type CommandContext, type LookOptions } from './context.ts'

export function registerDoctor(egpu: Command, { terminal, signal, exitWith }: CommandContext): void {
  addLookOptions(egpu.command('doctor'))
    .description('say what is connected, what works, and what to do about the rest')
    .addHelpText('after', `\nEnds with ${ExitCode.Attention} when something needs attention.`)
    .action(async (options: LookOptions) => {
      if (!(await doctor(options, terminal, signal))) exitWith(ExitCode.Attention)
    })
}

const order = ['error', 'warning', 'info'] as const

/**
 * What is connected, what works, and for everything that does not: what was seen and what to do. Resolves to whether
 * everything that is connected works.
 */
async function doctor(options: LookOptions, terminal: Terminal, signal: AbortSignal): Promise<boolean> {
  await using manager = await openMachine(options, signal)
  const findings = [...manager.findings].sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity))
  const healthy = findings.every(({ severity }) => severity === 'info')
  if (options.json === true) {
    const { enclosures, externalDevices } = manager
    printJson({ machine: machineFacts(options), healthy, externalDevices, enclosures, findings }, terminal)
    return healthy
  }
  printSummary(manager, findings, terminal)
  terminal.print(
    healthy ? terminal.colors.green('Nothing is wrong.') : terminal.colors.bold('Something needs attention:'),
  )
  for (const finding of findings) {
    terminal.print()
    printFinding(finding, terminal)
  }
  return healthy
}

function printSummary(manager: EGpuManager, findings: readonly Finding[], { print, columns, colors }: Terminal): void {
  const { externalDevices, enclosures } = manager
  const line = (mark: string, what: string, text: string): void =>
    print(`${mark} ${what}  ${wrap(text, columns - 7, ' '.repeat(7))}`)
  const concerned = (severity: Finding['severity']): ReadonlySet<string | undefined> =>
    new Set(
      findings.flatMap((finding) => (finding.severity === severity ? [finding.deviceId, finding.enclosureId] : [])),
    )
  const [errors, warnings] = [concerned('error'), concerned('warning')]
  const mark = (id: string): string =>
    errors.has(id) ? colors.red('✗') : warnings.has(id) ? colors.yellow('!') : colors.green('✓')
  if (externalDevices.length === 0 && enclosures.length === 0)
    print(wrap('No external GPU and no enclosure is connected.', columns, ''))
  for (const enclosure of enclosures) line(mark(enclosure.id), 'box', plain(enclosure.name ?? enclosure.id))
  for (const device of externalDevices) {
    const details = [verdictText(device.verdict), device.state, linkText(device)].filter((part) => part !== undefined)
    line(mark(device.id), 'GPU', `${deviceName(device)}: ${details.join('; ')}`)
  }
}
