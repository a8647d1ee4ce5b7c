import { describe, expect, it } from 'vitest'
import { buildMachine, machineNamed } from '../../driver-linux/test/machines/index.ts'
import { runCli } from '../src/cli.ts'
import { ExitCode } from '../src/exit-code.ts'
import { recordingTerminal } from './recording-terminal.ts'

interface Outcome {
  readonly code: number
  readonly out: string
  readonly notes: string
}

const cli = (machineName: string, ...args: string[]): Promise<Outcome> => cliOn(80, machineName, ...args)

async function cliOn(columns: number, machineName: string, ...args: string[]): Promise<Outcome> {
  using machine = buildMachine(machineNamed(machineName))
  const terminal = recordingTerminal({ columns })
  const code = await runCli([...args, '--sysfs-root', machine.sysfsRoot], terminal)
  return { code, out: terminal.out.join('\n'), notes: terminal.notes.join('\n') }
}

describe('egpu doctor', () => {
  it('marks a box that does not work, says what was seen and what to do', async () => {
    const { code, out } = await cli('5', 'doctor')
    expect(code).toBe(ExitCode.Attention)
    expect(out).toMatch(/✗ box .*AORUS/)
    expect(out).toMatch(/enclosure-unauthorized[\s\S]*seen[\s\S]*do .*boltctl/)
  })

  it('puts a GPU that works with a reservation between the two', async () => {
    const { out } = await cli('1', 'doctor')
    expect(out).toMatch(/! GPU/)
    expect(out).not.toContain('✗')
  })

  it('finds nothing wrong where nothing is', async () => {
    const { code, out } = await cli('37', 'doctor')
    expect(code).toBe(ExitCode.Ok)
    expect(out).toContain('No external GPU and no enclosure is connected.')
    expect(out).toContain('Nothing is wrong.')
  })

  it('keeps to a terminal of 40 columns, except for words that are longer', async () => {
    const { out } = await cliOn(40, '1', 'doctor')
    const tooLong = out.split('\n').filter((line) => line.length > 40 && line.trim().split(' ').length > 2)
    expect(tooLong).toEqual([])
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
  it('answers a program that asked for JSON with JSON when it fails', async () => {
    const { code, out, notes } = await cli('1', 'eject', 'nonsense', '--json')
    expect(code).toBe(1)
    expect(out).toBe('')
    expect(JSON.parse(notes)).toMatchObject({ error: { code: 'EGPU_DEVICE_NOT_FOUND' } })
  })
})
