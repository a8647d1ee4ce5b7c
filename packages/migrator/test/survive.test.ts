import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { mixed } from './helpers/mixer.ts'

interface Outcome {
  readonly outcome: unknown
  readonly deaths: readonly string[]
}

function parent(args: readonly string[], survivor: string = ''): Outcome {
  const path = new URL('./helpers/survivor-parent.ts', import.meta.url).pathname
  const { stdout, stderr } = spawnSync(process.execPath, ['--conditions=@egpu/source', '--import=tsx', path, ...args], {
    encoding: 'utf8',
    env: { ...process.env, SURVIVOR: survivor },
    cwd: new URL('..', import.meta.url).pathname,
  })
  try {
    return JSON.parse(stdout) as Outcome
  } catch (cause) {
    throw new Error(`the parent said: ${stdout}${stderr}`, { cause })
  }
}

it('survive() brings work to its end, bit for bit, though its process is killed again and again', () => {
  const { outcome, deaths } = parent(['3'])
  expect(deaths).toEqual(['SIGKILL', 'SIGKILL', 'SIGKILL'])
  expect(outcome).toBe(mixed(64, 400))
}, 120_000)

it('survive() kills a process whose event loop stands still, and goes on from its last checkpoint', () => {
  const { outcome, deaths } = parent(['0', '10000'], 'hang')
  // On a machine that is busy enough a child may stand still for as long once more.
  expect(new Set(deaths)).toEqual(new Set(['hung']))
  expect(outcome).toBe(mixed(64, 400))
}, 120_000)

it('survive() gives up on work that kills its process before it gets anywhere', () => {
  const { outcome, deaths } = parent(['0'], 'poison')
  expect(deaths).toHaveLength(3)
  expect(outcome).toMatchObject({ error: expect.stringContaining('died 3 times without getting further') })
}, 120_000)
