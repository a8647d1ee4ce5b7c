/**
 * Writes recorded machines to disk, to look at one or to run the command line on it:
 *
 *   node --import=tsx packages/driver-linux/test/machines/generate.ts aorus-healthy-unbound /tmp/aorus
 *   egpu list --sysfs-root /tmp/aorus/sys
 *
 * A case number does as well as a name; `all` writes every machine, without arguments it lists them.
 */
import { join } from 'node:path'
import { buildMachine, machineNamed, machines } from './index.ts'

const [name, directory] = process.argv.slice(2)

if (name === undefined) {
  for (const machine of machines)
    console.log([machine.case ?? '-', machine.name, machine.facts, machine.origin].join('\t'))
} else if (directory === undefined) {
  console.error('usage: generate.ts <name, case number or all> <directory>')
  process.exitCode = 2
} else if (name === 'all') {
  for (const machine of machines) console.log(buildMachine(machine, join(directory, machine.name)).sysfsRoot)
} else {
  console.log(buildMachine(machineNamed(name), directory).sysfsRoot)
}
