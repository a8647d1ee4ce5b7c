import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { survive } from '@egpu/migrator/node'
import { expect, it } from 'vitest'
import { mixed } from './helpers/mixer.ts'

interface Outcome {
  readonly outcome: unknown
  readonly deaths: readonly string[]
}

const path = new URL('./helpers/survivor-parent.ts', import.meta.url).pathname
const nodeArgs = ['--conditions=@egpu/source', '--import=tsx', path]
const cwd = new URL('..', import.meta.url).pathname

function parent(args: readonly string[], survivor: string = ''): Outcome {
  const { stdout, stderr } = spawnSync(process.execPath, [...nodeArgs, ...args], {
    encoding: 'utf8',
    env: { ...process.env, SURVIVOR: survivor },
    cwd,
  })
  try {
    return JSON.parse(stdout) as Outcome
  } catch (cause) {
    throw new Error(`the parent said: ${stdout}${stderr}`, { cause })
  }
}

it('survive() brings work to its end, bit for bit, though its process is killed again and again', () => {
  const { outcome, deaths } = parent(['3', '100000'])
  // On a machine that is busy enough it is done before there are checkpoints for all three.
  expect(new Set(deaths)).toEqual(new Set(['SIGKILL']))
  expect(outcome).toBe(mixed(64, 400))
}, 120_000)

it('survive() kills a process whose event loop stands still, and goes on from its last checkpoint', () => {
  const { outcome, deaths } = parent(['0', '10000', '10'], 'hang')
  // On a machine that is busy enough a child may stand still for as long once more.
  expect(new Set(deaths)).toEqual(new Set(['hung']))
  expect(outcome).toBe(mixed(64, 400))
}, 120_000)

it('survive() gives up on work that kills its process before it gets anywhere', () => {
  const { outcome, deaths } = parent(['0', '100000'], 'poison')
  expect(deaths).toHaveLength(3)
  expect(outcome).toMatchObject({ error: expect.stringContaining('died 3 times without getting further') })
}, 120_000)

it.each([
  ['is not there', './no-such-work.ts', 'cannot find'],
  ['has no default export', './mixer.ts', 'no function as its default export'],
  ['makes no work', 'data:text/javascript,export default () => ({})', 'must give { drivers, workload }'],
  ['throws', 'data:text/javascript,export default () => { throw new Error("no GPU") }', 'no GPU'],
])(
  'survive() says at once why a module that %s cannot be started',
  (_how, module, why) => {
    const { outcome, deaths } = parent(['0', '100000', '5', module])
    expect(deaths).toEqual([])
    expect(outcome).toMatchObject({ error: expect.stringContaining('cannot be started') })
    expect((outcome as { readonly error: string }).error.toLowerCase()).toContain(why.toLowerCase())
  },
  120_000,
)

it.each([undefined, null, '', 7, {}])('survive() takes no %j for a module', (module) => {
  expect(() => survive(module as string)).toThrow(TypeError)
})

it('survive() leaves no process behind that hangs when its parent is killed', async () => {
  const env = { ...process.env, SURVIVOR: 'hang at once' }
  const stdio = ['ignore', 'pipe', 'inherit'] as const
  const killed = spawn(process.execPath, [...nodeArgs, '0', '1000000'], { env, cwd, stdio: [...stdio] })
  const [said] = (await once(killed.stdout, 'data')) as [Buffer]
  const child = Number(said.toString('utf8'))
  expect(child).toBeGreaterThan(1)
  let isOver = false
  try {
    killed.kill('SIGKILL')
    // The child has the other end too: it closes when the last of the two is gone.
    await once(killed.stdout, 'close', { signal: AbortSignal.timeout(90_000) })
    isOver = true
  } finally {
    if (!isOver) process.kill(child, 'SIGKILL')
  }
}, 180_000)
