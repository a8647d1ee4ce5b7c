import { execFileSync } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { tool } from '../../scripts/pnpm.mjs'
import { root } from '../workspace.ts'

interface Outcome {
  readonly identical: boolean
  readonly referenceSha256: string
  readonly resultSha256: string
  readonly lostSteps: number
  readonly rtoMs: number
  readonly targets: readonly string[]
  readonly webgpu: boolean
  readonly png: string
}

function demo(...args: string[]): Outcome {
  const command = [join(root, 'packages/cli/dist/bin.js'), 'demo', '--json', '--seed', '7', ...args]
  const output = execFileSync(process.execPath, command, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  const outcome = JSON.parse(output.trim().split('\n').at(-1) as string) as Outcome
  expect(existsSync(outcome.png)).toBe(true)
  rmSync(outcome.png)
  return outcome
}

beforeAll(() => {
  expect(tool('turbo', ['run', 'build', '--filter=@egpu/cli...', '--output-logs=errors-only'])).toBe(0)
})

describe('egpu demo, as built', () => {
  it('survives the pulled cable on the simulator, bit for bit', () => {
    const outcome = demo('--no-webgpu')
    expect(outcome).toMatchObject({ identical: true, webgpu: false, targets: ['external GPU', 'CPU', 'external GPU'] })
    expect(outcome.resultSha256).toBe(outcome.referenceSha256)
    expect(outcome.lostSteps).toBeGreaterThan(0)
  })

  it('survives a VK_ERROR_DEVICE_LOST from the Vulkan driver under a real WebGPU, bit for bit', () => {
    const outcome = demo('--real-loss')
    expect(outcome).toMatchObject({ identical: true, webgpu: true, targets: ['external GPU', 'CPU', 'external GPU'] })
    expect(outcome.resultSha256).toBe(outcome.referenceSha256)
  })
})
