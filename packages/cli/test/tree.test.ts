import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { buildMachine, machineNamed } from '../../driver-linux/test/machines/index.ts'
import { positives } from '../../driver-macos/test/cases.ts'
import { toPlist } from '../../driver-macos/test/registry-tree.ts'
import { runCli } from '../src/cli.ts'
import { recordingTerminal } from './recording-terminal.ts'

const tree = (name: string, ...args: string[]): Promise<string> => treeOn(200, name, ...args)

async function treeOn(columns: number, name: string, ...args: string[]): Promise<string> {
  using machine = buildMachine(machineNamed(name))
  const terminal = recordingTerminal({ columns })
  expect(await runCli(['tree', ...args, '--sysfs-root', machine.sysfsRoot], terminal)).toBe(0)
  return terminal.out.join('\n')
}

/** How deep the line with this text hangs. */
function depth(drawn: string, text: string): number {
  const line = drawn.split('\n').find((one) => one.includes(text))
  if (line === undefined) throw new Error(`no line has ${text}`)
  return line.search(/[^│├└─ ]/) / 3
}

describe('egpu tree', () => {
  it('hangs a GPU below its hops, and those below the box on its cable', async () => {
    const drawn = await tree('1')
    expect(depth(drawn, 'AORUS')).toBe(1)
    expect(depth(drawn, 'through the cable')).toBe(2)
    expect(depth(drawn, 'external over usb4')).toBeGreaterThan(3)
    expect(drawn).toMatch(/limits the whole path|limited by the cable/)
  })

  it('hangs a box below the one it is chained behind', async () => {
    const drawn = await tree('two-egpus-daisy-chained')
    const boxes = drawn.split('\n').filter((line) => line.includes('thunderbolt-') && line.includes('Gb/s'))
    expect(boxes.map((line) => line.search(/[^│├└─ ]/) / 3)).toEqual([1, 2])
  })

  it.each([40, 60, 80])('keeps to %d columns, and says the same as on a wide terminal', async (columns) => {
    // Without the root, which is called after the folder of the recording.
    const words = (drawn: string): string[] => drawn.split(/[\s│├└─]+/).filter((word) => !/^$|^\//.test(word))
    const drawn = await treeOn(columns, 'two-egpus-daisy-chained')
    const lines = drawn.split('\n')
    expect(lines.filter((line) => line.length > columns && words(line).length > 1)).toEqual([])
    expect(words(drawn)).toEqual(words(await tree('two-egpus-daisy-chained')))
  })

  it("calls a Mac's hops by the last part of their path, below what they hang on", async () => {
    const mac = positives.find(({ name }) => name.startsWith('MacBook Pro 2019'))
    const file = join(mkdtempSync(join(tmpdir(), 'egpu-tree-')), 'mac.plist')
    writeFileSync(file, toPlist((mac as (typeof positives)[number]).tree()))
    const terminal = recordingTerminal({ columns: 60 })
    expect(await runCli(['tree', '--from', file], terminal)).toBe(0)
    const [, ...lines] = terminal.out
    expect(lines.join('\n')).toMatch(/─ \S+@\S+ {2}PCIe/)
    expect(lines.filter((line) => line.length > 60 || line.includes('IOService:'))).toEqual([])
  })

  it('gives the same nodes as JSON', async () => {
    const { tree: root } = JSON.parse(await tree('1', '--json')) as { tree: { children: { mark: string }[] } }
    expect(root.children.some(({ mark }) => mark === 'box')).toBe(true)
  })
})
