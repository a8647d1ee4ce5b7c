import { expect, it } from 'vitest'
import { buildMachine, machineNamed } from '../../driver-linux/test/machines/index.ts'
import { runCli } from '../src/cli.ts'
import { recordingTerminal } from './recording-terminal.ts'

const columns = 40

/** Commands, arguments for QEMU and XML are copied in one piece. */
const isCopied = (line: string): boolean => /^ {5}\S|^-device|^\s*<|vfio-pci,host/.test(line)

it.each(['list', 'tree', 'doctor', 'eject', 'passthrough plan', 'list --help'])(
  `egpu %s fits ${columns} columns, but for words that do not`,
  async (command) => {
    const args = command.split(' ')
    for (const name of ['1', '5', 'two-egpus-daisy-chained']) {
      using machine = buildMachine(machineNamed(name))
      const terminal = recordingTerminal({ columns })
      const root = args.includes('--help') ? [] : ['--sysfs-root', machine.sysfsRoot]
      await runCli([...args, ...root], terminal)
      const lines = terminal.out.flatMap((text) => text.split('\n'))
      const words = (line: string): string[] => line.split(/[\s│├└─]+/).filter((word) => word !== '')
      const tooWide = lines.filter((line) => line.length > columns && words(line).length > 1 && !isCopied(line))
      // What stands beside a word that is too long is not the fault of the line.
      expect(tooWide.filter((line) => Math.max(...words(line).map(({ length }) => length)) < 24)).toEqual([])
    }
  },
)
