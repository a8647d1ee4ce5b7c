import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const bin = fileURLToPath(new URL('../../src/bin.ts', import.meta.url))

describe('egpu bench', () => {
  it('measures what WebGPU opens here, with bytes that came back as they were sent, and says nothing else', () => {
    // As in a container: libwayland, below Mesa, complains about the missing variable.
    const { XDG_RUNTIME_DIR: _, ...env } = process.env
    const args = ['--conditions=@egpu/source', '--import=tsx', bin, 'bench', '--json', '--budget', '2000']
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', env })
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    const measured = JSON.parse(stdout) as { rates?: Record<string, unknown>; failure?: string }[]
    expect(measured.length).toBeGreaterThan(0)
    for (const { rates, failure } of measured) {
      expect(failure).toBeUndefined()
      expect(rates).toMatchObject({ flops: expect.any(Number), memoryGBps: expect.any(Number), linkGBps: {} })
    }
  })
})
