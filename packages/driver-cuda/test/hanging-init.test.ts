import { existsSync, readdirSync } from 'node:fs'
import { EGpuErrorCode } from '@egpu/core'
import type { EGpuDevice } from '@egpu/core'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { cudaGuest, listCudaProcesses, planCudaLeave, recoverCudaProcesses, resumeParked } from '../src/index.ts'
import type { CudaOptions, CudaProcess } from '../src/index.ts'
import { FakeMachine } from './machine.ts'

// A driver that is stuck when CUDA is initialised: nothing has been stopped yet, and nothing may be.
vi.setConfig({ testTimeout: 180_000 })

let machine: FakeMachine

beforeEach(() => {
  machine = new FakeMachine()
})

afterEach(() => machine[Symbol.dispose]())

const timeout = { code: EGpuErrorCode.Timeout }

/** The driver hangs from now on, for processes that have not initialised it before. */
async function hang(): Promise<CudaOptions & { readonly signal: AbortSignal; readonly end: AbortController }> {
  machine.ctl('hang-init', 1)
  const hosts = machine.hosts()
  for (const pid of hosts) process.kill(pid, 'SIGKILL')
  // Until their parent, which is us, has taken note.
  await machine.until('the helpers to be gone', () => !hosts.some((pid) => existsSync(`/proc/${pid}`)))
  const end = new AbortController()
  return { ...machine.options, stepTimeoutMs: 500, end, signal: end.signal }
}

const device = (): EGpuDevice => ({ id: 'egpu', identity: { uuid: machine.uuid(0) } }) as EGpuDevice
const notes = (): readonly string[] => readdirSync(machine.stateDirectory)
const only = async (options: CudaOptions = machine.options): Promise<CudaProcess> =>
  (await listCudaProcesses(options))[0] as CudaProcess

it('lists, plans, parks, moves and leaves with EGPU_TIMEOUT, and stops nobody', async () => {
  const victim = await machine.start()
  const target = await only({ ...machine.options, stepTimeoutMs: 500 })
  const options = await hang()
  await expect(listCudaProcesses(options)).rejects.toMatchObject(timeout)
  await expect(planCudaLeave(machine.uuid(0), options)).rejects.toMatchObject(timeout)
  await expect(target.park()).rejects.toMatchObject(timeout)
  await expect(target.moveTo(machine.uuid(1))).rejects.toMatchObject(timeout)
  const left = await cudaGuest(options).leave(device(), options)
  expect(left).toMatchObject({ left: false, reason: expect.stringContaining('not answered') })
  expect([machine.process(victim.pid), machine.log()]).toEqual(['0 0', []])
  await machine.until('the helpers to be gone', () => machine.hosts().length === 0)
})

it('resumes and recovers with EGPU_TIMEOUT, and leaves who is parked to the next try', async () => {
  const victims = [await machine.start(), await machine.start()]
  await cudaGuest({ ...machine.options, alwaysPark: true }).leave(device(), { signal: new AbortController().signal })
  const parked = notes()
  expect(parked).toHaveLength(2)
  const options = await hang()
  await expect(resumeParked(options)).rejects.toMatchObject(timeout)
  expect(await recoverCudaProcesses(options)).toMatchObject(
    victims.map(({ pid }) => ({ pid, outcome: 'held', error: timeout })),
  )
  expect(notes()).toEqual(parked)
  machine.ctl('hang-init', 0)
  expect(await resumeParked(machine.options)).toMatchObject([{ resumed: true }, { resumed: true }])
  expect(victims.map(({ pid }) => machine.process(pid))).toEqual(['0 0', '0 0'])
})

it('ends every call at once when it is aborted, with the reason', async () => {
  const victim = await machine.start()
  await (await only()).park()
  await machine.start()
  const { end, ...world } = await hang()
  const options = { ...world, stepTimeoutMs: 600_000 }
  const reason = new Error('enough')
  const calls = [
    listCudaProcesses(options),
    resumeParked(options),
    recoverCudaProcesses(options),
    cudaGuest(options).leave(device(), options),
  ].map((call) => call.catch((error: unknown) => error))
  await machine.until('the driver to hang', () => machine.ctl('hanging') === '1')
  end.abort(reason)
  expect(await Promise.all(calls)).toEqual(calls.map(() => reason))
  expect(machine.process(victim.pid)).toBe('2 0')
  await machine.until('the helpers to be gone', () => machine.hosts().length === 0)
})
