import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { EGpuErrorCode } from '@egpu/core'
import { survive } from '@egpu/migrator/node'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { mixed } from './helpers/mixer.ts'
import { Survivors } from './helpers/survivors.ts'
import type { Outcome } from './helpers/survivors.ts'

let survivors: Survivors
/** Waits for most of its time, so it begins first and is looked at last. */
let hung: Promise<Outcome>
beforeAll(async () => {
  survivors = await Survivors.build()
  hung = survivors.run({ survivor: 'hang', hangMs: 10_000, maxDeaths: 10 })
  hung.catch(() => undefined)
})
afterAll(async () => {
  await hung.catch(() => undefined)
  survivors[Symbol.dispose]()
})

it('survive() brings work to its end, bit for bit, though its process is killed again and again', async () => {
  const { outcome, deaths } = await survivors.run({ survivor: 'slow until killed 3 times', kills: 3 })
  expect(deaths).toEqual(['SIGKILL', 'SIGKILL', 'SIGKILL'])
  expect(outcome).toBe(mixed(64, 400))
})

it('survive() gives up on work that kills its process before it gets anywhere', async () => {
  const { outcome, deaths } = await survivors.run({ survivor: 'poison' })
  expect(deaths).toHaveLength(3)
  expect(outcome).toMatchObject({
    code: EGpuErrorCode.WorkloadFailed,
    message: expect.stringContaining('died 3 times without getting further'),
  })
})

const work = (drivers: string, workload: string): string =>
  `export default () => ({ drivers: ${drivers}, workload: ${workload} })`

it.each([
  ['is not there', undefined, /cannot find module/i, { code: 'ERR_MODULE_NOT_FOUND' }],
  ['is a directory', 'directory', /directory import/i, { code: 'ERR_UNSUPPORTED_DIR_IMPORT' }],
  [
    'is no JavaScript',
    'const x = 1\nexport default () => {',
    'Unexpected end of input; `node --check`',
    { name: 'SyntaxError' },
  ],
  [
    'imports what is not there',
    'import "./none.js"',
    /cannot find module.*none\.js/i,
    { code: 'ERR_MODULE_NOT_FOUND' },
  ],
  ['has no default export', '', 'no function as its default export', { name: 'TypeError' }],
  ['has a default export that is no function', 'export default 7', 'no function as its default', { name: 'TypeError' }],
  ['makes no work', 'export default () => ({})', 'must give { drivers, workload }', { name: 'TypeError' }],
  ['makes drivers that are none', work('[{}]', '{}'), 'a driver must be', { name: 'TypeError' }],
  ['makes a workload that is none', work('[]', '{ id: "x" }'), 'must be a Checkpointable', { name: 'TypeError' }],
  ['throws', 'export default () => { throw new RangeError("no GPU") }', 'no GPU', { name: 'RangeError' }],
  ['throws what is no error', 'throw null', 'null', { name: 'Error' }],
])('survive() says at once why a module that %s cannot be started', async (how, text, why, cause) => {
  const path = survivors.path(`${how.replaceAll(' ', '-')}.js`)
  if (text === 'directory') mkdirSync(path)
  else if (text !== undefined) writeFileSync(path, text)
  const { outcome, deaths } = await survivors.run({ module: pathToFileURL(path).href })
  expect(deaths).toEqual([])
  expect(outcome).toMatchObject({
    code: EGpuErrorCode.WorkloadFailed,
    message: expect.stringContaining('cannot be started'),
    cause,
  })
  expect(outcome).toMatchObject({ message: expect.stringMatching(why) })
})

it('survive() takes the path of a module, and says what its work failed with', async () => {
  const path = survivors.path('fails.js')
  writeFileSync(path, `export { default } from './work.js'`)
  const { outcome, deaths } = await survivors.run({ module: path, survivor: 'fail at the end' })
  expect(deaths).toEqual([])
  expect(outcome).toMatchObject({
    code: EGpuErrorCode.WorkloadFailed,
    message: expect.stringContaining('failed: the result is lost'),
    cause: { name: 'RangeError' },
  })
})

it('survive() tells on an event why checkpoints cannot be kept where they should be', async () => {
  const path = survivors.path('notes')
  writeFileSync(path, '')
  const { told } = await survivors.run({ store: path })
  expect(told[0]).toContain(EGpuErrorCode.CheckpointFailed)
  expect(told[0]).toContain('notes is a file and no directory')
})

it.each([undefined, null, '', './work.js', '../work.js', '/a\0b', 7, {}])(
  'survive() takes no %j for a module',
  (module) => {
    expect(() => survive(module as string)).toThrow(TypeError)
  },
)

it('survive() leaves no process behind that hangs when its parent is killed', async () => {
  const killed = survivors.start({ survivor: 'hang at once' })
  if (killed.stdout === null) throw new Error('nothing is heard of it')
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
})

it('survive() kills a process whose event loop stands still, and goes on from its last checkpoint', async () => {
  const { outcome, deaths } = await hung
  // On a machine that is busy enough a child may stand still for as long once more.
  expect(new Set(deaths)).toEqual(new Set(['hung']))
  expect(outcome).toBe(mixed(64, 400))
})
