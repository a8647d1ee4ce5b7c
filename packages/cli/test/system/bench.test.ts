import { describe, expect, it } from 'vitest'
import { runCli } from '../../src/cli.ts'
import { recordingTerminal } from '../recording-terminal.ts'

describe('egpu bench', () => {
  it('measures what WebGPU opens here, with bytes that came back as they were sent', async () => {
    const terminal = recordingTerminal()
    expect(await runCli(['bench', '--json', '--budget', '2000'], terminal)).toBe(0)
    const measured = JSON.parse(terminal.out.join('')) as { rates?: Record<string, unknown>; failure?: string }[]
    expect(measured.length).toBeGreaterThan(0)
    for (const { rates, failure } of measured) {
      expect(failure).toBeUndefined()
      expect(rates).toMatchObject({ flops: expect.any(Number), memoryGBps: expect.any(Number), linkGBps: {} })
    }
  })
})
