import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { listCudaProcesses, recoverCudaProcesses } from '../src/index.ts'
import { readProcess } from '../src/processes/proc.ts'
import { FakeMachine } from './machine.ts'
import type { Victim } from './machine.ts'

// Each test starts a controller of its own from TypeScript sources.
vi.setConfig({ testTimeout: 120_000 })

let machine: FakeMachine
let controller: ChildProcess | undefined

beforeEach(() => {
  machine = new FakeMachine()
})

afterEach(() => {
  controller?.kill('SIGKILL')
  machine[Symbol.dispose]()
})

function control(victim: Victim, verb: 'park' | 'resume' | 'move'): ChildProcess {
  return run(new URL('./controller.ts', import.meta.url), String(victim.pid), verb, machine.uuid(1))
}

function run(program: URL, ...more: readonly string[]): ChildProcess {
  const args = [
    '--conditions=@egpu/source',
    '--import=tsx',
    fileURLToPath(program),
    JSON.stringify(machine.options),
    ...more,
  ]
  controller = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  return controller
}

/** Of a program that tests have started, as far as it makes calls for this machine. */
function hostsOf({ pid }: ChildProcess): readonly number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .split(' ')
    .filter((child) => child !== '' && readFileSync(`/proc/${child}/cmdline`, 'utf8').includes(machine.home))
    .map(Number)
}

async function killed(child: ChildProcess, andHosts: boolean): Promise<void> {
  const hosts = hostsOf(child)
  const ended = new Promise((resolve) => child.once('exit', resolve))
  // The controller first: a host that died before would be replaced.
  child.kill('SIGKILL')
  if (andHosts) for (const pid of hosts) process.kill(pid, 'SIGKILL')
  await ended
}

async function expectSameBits(victim: Victim): Promise<void> {
  const output = await victim.finish()
  expect(output).toEqual(machine.undisturbed(output.length - 1))
}

const moments = ['lock', 'checkpoint', 'restore', 'unlock'].flatMap((step) =>
  (['before', 'after'] as const).map((when) => ({ step, when })),
)

describe('a controller killed with its host in the middle of a move', () => {
  it.each(moments)('$when $step: recovery has the process run, with the same bits', async ({ step, when }) => {
    const victim = await machine.start({ bytes: 2 ** 20 })
    machine.ctl('pause', step, when)
    const child = control(victim, 'move')
    await machine.until(`the controller to be ${when} ${step}`, () => machine.ctl('paused') === '1')
    await killed(child, true)
    machine.ctl('go-on')
    expect(await recoverCudaProcesses(machine.options)).toEqual([
      { pid: victim.pid, name: 'victim', outcome: 'running' },
    ])
    expect(machine.process(victim.pid)).toMatch(/^0 /)
    await expectSameBits(victim)
    expect(await recoverCudaProcesses(machine.options)).toEqual([])
  })
})

it('a park that was cut off while the process copied is taken back once the copy is done', async () => {
  const victim = await machine.start({ bytes: 2 ** 20 })
  machine.ctl('checkpoint-ms', 2_000)
  const child = control(victim, 'park')
  await machine.until('the copy to be under way', () => machine.process(victim.pid).startsWith('1'))
  await killed(child, true)
  const [recovery] = await recoverCudaProcesses(machine.options)
  expect(recovery).toMatchObject({ outcome: 'running' })
  await expectSameBits(victim)
})

it('a resume that was cut off is completed', async () => {
  const victim = await machine.start({ bytes: 2 ** 20 })
  const [target] = await listCudaProcesses(machine.options)
  await target?.park()
  machine.ctl('pause', 'restore', 'after')
  const child = control(victim, 'resume')
  await machine.until('the restore', () => machine.ctl('paused') === '1')
  await killed(child, true)
  machine.ctl('go-on')
  expect(await recoverCudaProcesses(machine.options)).toMatchObject([{ outcome: 'running' }])
  await expectSameBits(victim)
})

it('a controller that dies alone leaves a host that sets the process to work again', async () => {
  const victim = await machine.start({ bytes: 2 ** 20 })
  machine.ctl('pause', 'checkpoint', 'after')
  const child = control(victim, 'park')
  await machine.until('the checkpoint', () => machine.ctl('paused') === '1')
  await killed(child, false)
  machine.ctl('go-on')
  await machine.until('the host to let go', () => machine.process(victim.pid) === '0 0')
  expect(await recoverCudaProcesses(machine.options)).toMatchObject([{ outcome: 'running' }])
  await expectSameBits(victim)
})

it('forgets a process that ended while it was parked', async () => {
  const victim = await machine.start({ bytes: 2 ** 20 })
  const [target] = await listCudaProcesses(machine.options)
  await target?.park()
  victim.child.kill('SIGKILL')
  await victim.output
  expect(await recoverCudaProcesses(machine.options)).toMatchObject([{ outcome: 'ended' }])
  expect(await recoverCudaProcesses(machine.options)).toEqual([])
})

it.each(['SIGTERM', 'SIGKILL'] as const)(
  'a program that %s ends while NVML hangs leaves nothing behind',
  async (signal) => {
    machine.ctl('hang-nvml', 1)
    const child = run(new URL('./hanging.ts', import.meta.url))
    await machine.until('the host', () => hostsOf(child).length > 0)
    const hosts = hostsOf(child)
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill(signal)
    await ended
    await machine.until('the host to end', () => hosts.every((pid) => readProcess('/proc', pid) === undefined))
  },
)
