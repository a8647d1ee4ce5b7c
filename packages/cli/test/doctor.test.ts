import { describe, expect, it } from 'vitest'
import { buildMachine, machineNamed } from '../../driver-linux/test/machines/index.ts'
import { runCli } from '../src/cli.ts'
import { recordingTerminal } from './recording-terminal.ts'

async function cli(machineName: string, ...args: string[]): Promise<{ code: number; out: string; notes: string }> {
  using machine = buildMachine(machineNamed(machineName))
  const terminal = recordingTerminal()
  const code = await runCli([...args, '--sysfs-root', machine.sysfsRoot], terminal)
  return { code, out: terminal.out.join('\n'), notes: terminal.notes.join('\n') }
}

describe('egpu doctor', () => {
  it('marks a box that does not work, says what was seen and what to do', async () => {
    const { code, out } = await cli('5', 'doctor')
    expect(code).toBe(0)
    expect(out).toMatch(/✗ box .*AORUS/)
    expect(out).toMatch(/enclosure-unauthorized[\s\S]*seen[\s\S]*do .*boltctl/)
  })

  it('puts a GPU that works with a reservation between the two', async () => {
    const { out } = await cli('1', 'doctor')
    expect(out).toMatch(/! GPU/)
    expect(out).not.toContain('✗')
  })

  it('finds nothing wrong where nothing is', async () => {
    const { out } = await cli('37', 'doctor')
    expect(out).toContain('No external GPU and no enclosure is connected.')
    expect(out).toContain('Nothing is wrong.')
  })

  it('gives the same as JSON', async () => {
    const { out } = await cli('5', 'doctor', '--json')
    expect(JSON.parse(out)).toMatchObject({ healthy: false, findings: [{ code: 'enclosure-unauthorized' }] })
  })
})

describe('choosing a GPU', () => {
  it('offers those that exist when the name fits none', async () => {
    const { code, notes } = await cli('1', 'eject', 'nonsense')
    expect(code).toBe(1)
    expect(notes).toMatch(/no GPU is called nonsense; there are:[\s\S]*nvidia-2b85/)
  })
})
