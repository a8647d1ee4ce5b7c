import type { Command } from 'commander'
import { machineFacts, openMachine } from '../machine.ts'
import { printJson } from '../output/json.ts'
import type { Terminal } from '../output/terminal.ts'
import { machineTree, treeLines, type TreeNode } from '../output/tree-text.ts'
import { addLookOptions, type CommandContext, type LookOptions } from './context.ts'

export function registerTree(egpu: Command, { terminal, signal }: CommandContext): void {
  addLookOptions(egpu.command('tree'))
    .description('draw host, cables, boxes, PCI Express hops and GPUs, and where the path is narrowest')
    .action((options: LookOptions) => tree(options, terminal, signal))
}

async function tree(options: LookOptions, terminal: Terminal, signal: AbortSignal): Promise<void> {
  await using manager = await openMachine(options, signal)
  const facts = machineFacts(options)
  const root = machineTree('recordedAt' in facts ? facts.recordedAt : 'this machine', manager)
  if (options.json === true) printJson({ machine: facts, tree: root }, terminal)
  else for (const line of treeLines(root, terminal.columns, painter(terminal))) terminal.print(line)
}

function painter({ colors }: Terminal): (text: string, mark: TreeNode['mark']) => string {
  return (text, mark) => {
    if (mark === 'limit') return colors.yellow(text)
    if (mark === 'gpu') return colors.bold(text)
    return mark === 'box' ? colors.cyan(text) : text
  }
}
