import type { EGpuManager, Finding } from '@egpu/core'
import { machineFacts, openMachine, type MachineOptions } from '../machine.ts'
import { deviceName, linkText, printFinding, verdictText } from '../output/device-text.ts'
import { printJson } from '../output/json.ts'
import type { Terminal } from '../output/terminal.ts'
import { plain } from '../output/text.ts'

export interface DoctorOptions extends MachineOptions {
  readonly json?: boolean | undefined
}

const order = ['error', 'warning', 'info'] as const

/** What is connected, what works, and for everything that does not: what was seen and what to do. */
export async function doctor(options: DoctorOptions, terminal: Terminal): Promise<void> {
  await using manager = await openMachine(options)
  const findings = [...manager.findings].sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity))
  if (options.json === true) {
    const { enclosures, externalDevices } = manager
    printJson(
      { machine: machineFacts(options), healthy: isHealthy(findings), externalDevices, enclosures, findings },
      terminal,
    )
    return
  }
  printSummary(manager, findings, terminal)
  for (const finding of findings) {
    terminal.print()
    printFinding(finding, terminal)
  }
}

/** Whether everything that is connected works. */
function isHealthy(findings: readonly Finding[]): boolean {
  return findings.every(({ severity }) => severity === 'info')
}

function printSummary(manager: EGpuManager, findings: readonly Finding[], { print, colors }: Terminal): void {
  const { externalDevices, enclosures } = manager
  const concerned = (severity: Finding['severity']): ReadonlySet<string | undefined> =>
    new Set(
      findings.flatMap((finding) => (finding.severity === severity ? [finding.deviceId, finding.enclosureId] : [])),
    )
  const [errors, warnings] = [concerned('error'), concerned('warning')]
  const mark = (id: string): string =>
    errors.has(id) ? colors.red('✗') : warnings.has(id) ? colors.yellow('!') : colors.green('✓')
  if (externalDevices.length === 0 && enclosures.length === 0) print('No external GPU and no enclosure is connected.')
  for (const enclosure of enclosures) print(`${mark(enclosure.id)} box  ${plain(enclosure.name ?? enclosure.id)}`)
  for (const device of externalDevices) {
    const details = [verdictText(device.verdict), device.state, linkText(device)].filter((part) => part !== undefined)
    print(`${mark(device.id)} GPU  ${deviceName(device)}: ${details.join('; ')}`)
  }
  print(isHealthy(findings) ? colors.green('Nothing is wrong.') : colors.bold('Something needs attention:'))
}
