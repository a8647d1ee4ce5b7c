import type { FrozenState } from '@egpu/core'
import { expect, it, onTestFinished } from 'vitest'
import { bench } from './helpers/bench.ts'
import { mixed, Mixer } from './helpers/mixer.ts'

const reference = mixed(256, 400)

/** What nobody caught: outside of a test it ends the process. */
function uncaught(): readonly unknown[] {
  const errors: unknown[] = []
  const note = (error: unknown): void => void errors.push(error)
  process.on('unhandledRejection', note)
  onTestFinished(() => void process.off('unhandledRejection', note))
  return errors
}

const nothings: readonly unknown[] = [undefined, null, 7, {}, { progress: 1, parts: [], async *read() {} }]

it.each([0, 700])('a freeze that gives no state after %i ms is reported, and nothing is lost', async (lateMs) => {
  const errors = uncaught()
  for (const nothing of nothings) {
    await using machine = await bench({ boxes: 2, migrationTimeoutMs: 150, failBackAfterMs: Infinity })
    const { clock, migrator, boxes } = machine
    const mixer = new Mixer({ clock, steps: 400 })
    const freeze = mixer.freeze.bind(mixer)
    let calls = 0
    mixer.freeze = async (options) => {
      calls += 1
      if (calls > 1) return freeze(options)
      await clock.sleep(lateMs)
      return nothing as FrozenState
    }
    const run = migrator.run(mixer)
    await clock.advance(1_000)
    boxes[0]?.yank()
    await machine.until(run.finished)
    await clock.advance(1_000)
    expect(mixer.result).toBe(reference)
    expect(machine.story()[0]).toBe(
      `mixer checkpoint failed: ${lateMs === 0 ? 'EGPU_WORKLOAD_FAILED' : 'EGPU_TIMEOUT'}`,
    )
  }
  await new Promise(setImmediate)
  expect(errors).toEqual([])
})

it.each([
  ['a text', (): unknown => 'x'.repeat(1_024)],
  ['numbers', (): unknown => new Float64Array(128)],
  ['a buffer', (): unknown => new ArrayBuffer(1_024)],
])('a drain that gives %s in place of bytes never gets a checkpoint committed', async (_what, piece) => {
  await using machine = await bench()
  const { clock, migrator } = machine
  const mixer = new Mixer({ clock })
  const freeze = mixer.freeze.bind(mixer)
  mixer.freeze = async (options) => ({
    ...(await freeze(options)),
    async *read() {
      yield piece() as Uint8Array
    },
  })
  migrator.run(mixer)
  await clock.advance(250)
  expect(machine.story()[0]).toBe('mixer checkpoint failed: EGPU_CHECKPOINT_FAILED')
  expect(await migrator.checkpoints.list('mixer')).toEqual([])
})

it.each(['', 5, undefined])('a part whose name is %j never gets a checkpoint committed', async (name) => {
  await using machine = await bench()
  const { clock, migrator } = machine
  const mixer = new Mixer({ clock })
  const freeze = mixer.freeze.bind(mixer)
  mixer.freeze = async (options) => ({
    ...(await freeze(options)),
    parts: [{ name: name as string, byteLength: 1_024 }],
  })
  migrator.run(mixer)
  await clock.advance(250)
  expect(machine.story()[0]).toBe('mixer checkpoint failed: EGPU_CHECKPOINT_FAILED')
  expect(await migrator.checkpoints.list('mixer')).toEqual([])
})

it('a resume that answers with a promise and rejects is taken for lost with its target, and nothing is lost', async () => {
  const errors = uncaught()
  for (const failing of [0, 1]) {
    await using machine = await bench({ boxes: 2, failBackAfterMs: Infinity })
    const { clock, migrator } = machine
    const mixer = new Mixer({ clock, steps: 400 })
    const resume = mixer.resume.bind(mixer)
    let calls = 0
    const later = async (): Promise<void> => {
      calls += 1
      if (calls === failing + 1) throw new Error('no queue')
      resume()
    }
    Object.assign(mixer, { resume: later })
    const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(150)
    if (failing === 1) run.moveTo('sim/sim:gpu-B').catch(() => undefined)
    await clock.advance(5_000)
    expect(mixer.result).toBe(reference)
    expect(mixer.doubleOwners).toBe(0)
  }
  await new Promise(setImmediate)
  expect(errors).toEqual([])
})
