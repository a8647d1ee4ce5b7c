import { userInfo } from 'node:os'
import { simDriver } from '@egpu/driver-sim'
import { Command } from 'commander'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { FakeMachine } from '../../driver-cuda/test/machine.ts'
import { registerCuda } from '../src/commands/cuda.ts'
import { registerEject } from '../src/commands/eject.ts'
import { registerResume } from '../src/commands/resume.ts'
import { registerRun } from '../src/commands/run.ts'
import { recordingTerminal } from './recording-terminal.ts'

vi.setConfig({ testTimeout: 60_000 })

let machine: FakeMachine

beforeEach(() => {
  machine = new FakeMachine()
})

afterEach(() => machine[Symbol.dispose]())

interface Outcome {
  readonly out: string
  readonly notes: string
  readonly code: number
  readonly error: unknown
}

/** Runs one command on the fake machine, whose first GPU is in a simulated box. */
async function egpu(...args: readonly string[]): Promise<Outcome> {
  const terminal = recordingTerminal()
  let [code, error]: [number, unknown] = [0, undefined]
  const context = { terminal, signal: new AbortController().signal, exitWith: (wanted: number) => void (code = wanted) }
  const program = new Command('egpu').exitOverride()
  registerCuda(program, context, machine.options)
  registerResume(program, context, machine.options)
  registerRun(program, context, machine.options)
  const gpu = { name: 'NVIDIA GeForce RTX 4090', vendorId: 0x10de, deviceId: 0x2684, uuid: machine.uuid(0) }
  registerEject(program, context, {
    drivers: async () => [
      simDriver({
        enclosures: [{ model: 'razer-core-x', plugged: true, gpus: [{ ...gpu, kernelDriver: 'nvidia' }] }],
      }),
    ],
    cuda: machine.options,
  })
  await program.parseAsync(args, { from: 'user' }).catch((thrown: unknown) => {
    error = thrown
  })
  return { out: terminal.out.join('\n'), notes: terminal.notes.join('\n'), code, error }
}

it('shows what becomes of the programs on a GPU before anything is done', async () => {
  const [moves, parks] = [await machine.start({ traits: ['only'] }), await machine.start({ bytes: 2 ** 31 })]
  const { out, error } = await egpu('eject')
  expect(error).toBeUndefined()
  expect(out).toContain(`victim (pid ${moves.pid}), 1.07 GB: moves to ${machine.uuid(1)}`)
  expect(out).toContain(`victim (pid ${parks.pid}), 2.15 GB: is parked in host memory`)
  expect(out).toContain('Nothing was changed')
  expect(machine.log()).toEqual([])
})

it('ejects: programs go first, then the GPU; afterwards they can be resumed', async () => {
  const [moves, parks] = [await machine.start({ traits: ['only'] }), await machine.start()]
  const { out, notes, error } = await egpu('eject', '--yes')
  expect(error).toBeUndefined()
  expect(out).toContain('It is safe to unplug')
  expect([machine.process(moves.pid), machine.process(parks.pid)]).toEqual(['0 1', '2 0'])
  expect(notes).toContain(`victim (pid ${parks.pid}): copying to host memory, 1.07 GB of 1.07 GB`)
  expect((await egpu('cuda', 'list')).out).toContain(
    `victim (pid ${parks.pid}) of ${userInfo().username}: 1.07 GB on ${machine.uuid(0)}`,
  )
  expect((await egpu('resume')).out).toBe(`victim (pid ${parks.pid}) runs again`)
  expect(machine.process(parks.pid)).toBe('0 0')
  expect((await egpu('resume')).out).toMatch(/^(?:No program is parked|You have parked no program)\./)
})

it('says who stays and why, and touches nobody', async () => {
  const [good, bad] = [await machine.start(), await machine.start({ traits: ['managed'] })]
  const plan = await egpu('eject')
  expect(plan.out).toContain(`victim (pid ${bad.pid}), 1.07 GB: stays: it uses managed memory`)
  expect(plan.error).toMatchObject({ message: expect.stringContaining('nothing was changed') })
  const run = await egpu('eject', '--yes')
  expect(run.error).toMatchObject({ message: expect.stringContaining(`pid ${bad.pid}`) })
  expect(machine.process(good.pid)).toBe('0 0')
  expect(machine.log()).toEqual([])
})

it('prints plans as JSON for programs', async () => {
  const victim = await machine.start()
  const plan = JSON.parse((await egpu('eject', '--json')).out) as { cuda: unknown }
  expect(plan.cuda).toMatchObject([{ how: 'park', bytes: 2 ** 30, processes: [{ pid: victim.pid }] }])
})

it('resume and recover end with 1 when somebody stays stopped', async () => {
  const victim = await machine.start()
  await egpu('eject', '--yes')
  machine.unplug(0)
  const resumed = await egpu('resume')
  expect(resumed).toMatchObject({ code: 1, out: expect.stringContaining(`victim (pid ${victim.pid}) stays parked`) })
  const recovered = await egpu('cuda', 'recover', '--json')
  expect(recovered.code).toBe(0)
  expect(JSON.parse(recovered.out)).toEqual([{ pid: victim.pid, name: 'victim', outcome: 'parked' }])
})

it('ends with 127 for a program that is not there, and with 126 for what is none', async () => {
  expect(await egpu('run', '--', 'no-such-program')).toMatchObject({
    code: 127,
    error: undefined,
    notes: 'egpu: no-such-program was not found',
  })
  expect(await egpu('run', '--', import.meta.filename)).toMatchObject({
    code: 126,
    error: undefined,
    notes: expect.stringContaining('cannot be started (EACCES)') as string,
  })
})

it('runs a program that sees one GPU, and ends as it ends', async () => {
  const script = `process.exit(process.env.CUDA_VISIBLE_DEVICES === '${machine.uuid(1)}' ? 7 : 0)`
  expect(await egpu('run', '--gpu', '07:00.0', '--', process.execPath, '-e', script)).toMatchObject({ code: 7 })
  expect(await egpu('run', '--', process.execPath, '-e', 'process.kill(process.pid)')).toMatchObject({ code: 143 })
  const unknown = await egpu('run', '--gpu', '99:00.0', '--', 'true')
  expect(unknown.error).toMatchObject({ message: expect.stringContaining(machine.uuid(0)) })
})
