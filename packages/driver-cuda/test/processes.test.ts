import { spawn } from 'node:child_process'
import { EGpuErrorCode, systemClock } from '@egpu/core'
import type { Clock } from '@egpu/core'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { listCudaProcesses, recoverCudaProcesses } from '../src/index.ts'
import type { CudaOptions, CudaProcess, MoveProgress } from '../src/index.ts'
import { FakeMachine } from './machine.ts'
import type { Victim } from './machine.ts'

// Every call starts processes that load native libraries.
vi.setConfig({ testTimeout: 60_000 })

let machine: FakeMachine

beforeEach(() => {
  machine = new FakeMachine()
})

afterEach(() => machine[Symbol.dispose]())

async function find(pid: number, options: CudaOptions = {}): Promise<CudaProcess> {
  const processes = await listCudaProcesses({ ...machine.options, ...options })
  const found = processes.find((one) => one.pid === pid)
  if (found === undefined) throw new Error(`process ${pid} is not listed`)
  return found
}

/** What it printed is what it prints when nobody touches it, for as many steps as it made. */
async function expectSameBits(victim: Victim, where: FakeMachine): Promise<void> {
  const output = await victim.finish()
  expect(output.length).toBeGreaterThan(2)
  expect(output).toEqual(where.undisturbed(output.length - 1))
}

const code = (value: string): { readonly code: string } => ({ code: value })

describe('listing', () => {
  it('says who computes where, with how much memory, and that it can be moved', async () => {
    const victim = await machine.start({ gpu: 1, bytes: 3 * 2 ** 30 })
    expect(await find(victim.pid)).toMatchObject({
      name: 'victim',
      memory: [{ uuid: machine.uuid(1), bytes: 3 * 2 ** 30 }],
      state: 'running',
      checkpointable: { possible: true },
      group: [victim.pid],
      parentPid: process.pid,
    })
  })

  it('says why not: a MIG instance', async () => {
    const victim = await machine.start({ traits: ['mig'] })
    const { checkpointable } = await find(victim.pid)
    expect(checkpointable).toMatchObject({ possible: false, reasons: [{ code: 'mig' }] })
  })

  it('says why not: a driver that lacks the calls, which park then refuses', async () => {
    const victim = await machine.start()
    const target = await find(victim.pid, { cudaLibrary: 'libc.so.6' })
    expect(target.checkpointable).toMatchObject({ possible: false, reasons: [{ code: 'driver-too-old' }] })
    await expect(target.park()).rejects.toMatchObject(code(EGpuErrorCode.NotSupported))
  })

  it('touches no GPU that sleeps', async () => {
    machine.setPower(0, 'suspended')
    machine.setPower(1, 'suspended')
    expect(await listCudaProcesses(machine.options)).toEqual([])
    expect(machine.ctl('attached', 0)).toBe('0')
  })

  it('takes in 200 programs on one GPU', async () => {
    const script = 'for i in $(seq 200); do sleep 600 & done; echo $(jobs -p); wait'
    const shell = spawn('bash', ['-c', script], { detached: true, stdio: ['ignore', 'pipe', 'inherit'] })
    onTestFinished(() => void process.kill(-(shell.pid as number), 'SIGKILL'))
    const text = await new Promise<string>((resolve) => shell.stdout.setEncoding('utf8').once('data', resolve))
    const pids = text.trim().split(' ').map(Number)
    machine.ctl('adopt', 0, 4096, ...pids)
    const processes = await listCudaProcesses(machine.options)
    expect(processes.map(({ pid }) => pid)).toEqual([...pids].sort((a, b) => a - b))
    expect(new Set(processes.map(({ group }) => group.length))).toEqual(new Set([200]))
    expect(processes.every(({ state, memory }) => state === 'running' && memory[0]?.bytes === 4096)).toBe(true)
  })

  it('rejects with EGPU_NATIVE_UNAVAILABLE where there is no CUDA', async () => {
    const call = listCudaProcesses({ ...machine.options, cudaLibrary: '/nowhere/libcuda.so.1' })
    await expect(call).rejects.toMatchObject(code(EGpuErrorCode.NativeUnavailable))
  })
})

describe('parking', () => {
  it('frees the GPU, and the program goes on with the same bits', async () => {
    const victim = await machine.start({ bytes: 2 ** 30 })
    const report = await (await find(victim.pid)).park()
    expect(report.steps.map(({ step }) => step)).toEqual(['lock', 'checkpoint'])
    expect(report.bytes).toBe(2 ** 30)
    expect(machine.process(victim.pid)).toBe('2 0')
    const parked = await find(victim.pid)
    expect(parked).toMatchObject({ state: 'checkpointed', memory: [{ uuid: machine.uuid(0), bytes: 2 ** 30 }] })
    await parked.resume()
    await expectSameBits(victim, machine)
    expect(await recoverCudaProcesses(machine.options)).toEqual([])
  })

  it('stays parked when nobody is there any more, and recovery leaves it so', async () => {
    const victim = await machine.start()
    await (await find(victim.pid)).park()
    expect(await recoverCudaProcesses(machine.options)).toEqual([
      { pid: victim.pid, name: 'victim', outcome: 'parked' },
    ])
    expect(machine.process(victim.pid)).toBe('2 0')
  })

  it('tells how far it is', async () => {
    machine.ctl('checkpoint-ms', 600)
    const victim = await machine.start()
    const seen: MoveProgress[] = []
    const target = await find(victim.pid)
    await target.park({ onProgress: (progress) => seen.push(progress) })
    expect(seen[0]).toMatchObject({ step: 'checkpoint', doneBytes: 0, totalBytes: 2 ** 30 })
    expect(seen.at(-1)?.doneBytes).toBe(2 ** 30)
    expect(seen.length).toBeGreaterThan(2)
  })

  it('refuses what does not fit into host memory before it stops anything', async () => {
    const victim = await machine.start({ bytes: 2 ** 50 })
    const target = await find(victim.pid)
    await expect(target.park()).rejects.toMatchObject(code(EGpuErrorCode.TargetIncompatible))
    expect(machine.log()).toEqual([])
    const forced = await find(victim.pid, { checkHostMemory: false })
    await forced.park()
    expect(machine.process(victim.pid)).toBe('2 0')
  })

  it('lets go of a process with memory that cannot be checkpointed, which goes on', async () => {
    const victim = await machine.start({ traits: ['uvm'] })
    const target = await find(victim.pid)
    await expect(target.park()).rejects.toMatchObject(code(EGpuErrorCode.NotSupported))
    expect(machine.process(victim.pid)).toBe('0 0')
    await expectSameBits(victim, machine)
    expect(await recoverCudaProcesses(machine.options)).toEqual([])
  })

  it('says so when the driver left a process beyond repair, and does not wait for it', async () => {
    const victim = await machine.start({ traits: ['badly'] })
    const target = await find(victim.pid)
    await expect(target.park()).rejects.toMatchObject(code(EGpuErrorCode.MigrationFailed))
    expect((await listCudaProcesses(machine.options))[0]?.checkpointable).toMatchObject({
      reasons: [{ code: 'failed-before' }],
    })
  })

  it('leaves a process alone that does not come to rest', async () => {
    const victim = await machine.start({ traits: ['busy'] })
    const target = await find(victim.pid, { lockTimeoutMs: 100 })
    await expect(target.park()).rejects.toMatchObject(code(EGpuErrorCode.Timeout))
    expect(machine.process(victim.pid)).toBe('0 0')
  })

  it('rejects with EGPU_DEVICE_LOST when the GPU goes in the middle', async () => {
    const victim = await machine.start()
    const target = await find(victim.pid)
    machine.ctl('pause', 'checkpoint', 'before')
    const call = target.park()
    await machine.until('the checkpoint to begin', () => machine.ctl('paused') === '1')
    machine.ctl('gpu', 0, 'lost', 1)
    machine.ctl('go-on')
    await expect(call).rejects.toMatchObject({ code: EGpuErrorCode.DeviceLost, deviceId: machine.uuid(0) })
  })

  it('leaves a step that hangs behind, and lets the process go when it can', async () => {
    const victim = await machine.start({ bytes: 1024 })
    const target = await find(victim.pid, { stepTimeoutMs: 300 })
    machine.ctl('pause', 'checkpoint', 'before')
    await expect(target.park()).rejects.toMatchObject(code(EGpuErrorCode.Timeout))
    machine.ctl('go-on')
    await recoverCudaProcesses(machine.options)
    expect(machine.process(victim.pid)).toBe('0 0')
    await expectSameBits(victim, machine)
  })

  it('takes back what it did when the signal aborts, and rejects with its reason', async () => {
    const victim = await machine.start()
    const target = await find(victim.pid)
    const end = new AbortController()
    const reason = new Error('changed my mind')
    machine.ctl('pause', 'lock', 'after')
    const call = target.park({ signal: end.signal })
    await machine.until('the lock', () => machine.ctl('paused') === '1')
    end.abort(reason)
    machine.ctl('go-on')
    await expect(call).rejects.toBe(reason)
    expect(machine.process(victim.pid)).toBe('0 0')
    await expectSameBits(victim, machine)
  })

  it('knows a process that has ended from a later one with its pid', async () => {
    const victim = await machine.start()
    const target = await find(victim.pid)
    Object.defineProperty(target, 'startTime', { value: '1' })
    await expect(target.park()).rejects.toMatchObject(code(EGpuErrorCode.ProcessNotFound))
    const real = await find(victim.pid)
    victim.child.kill('SIGKILL')
    await victim.output
    await expect(real.park()).rejects.toMatchObject(code(EGpuErrorCode.ProcessNotFound))
  })

  it('has one at a time work on a process', async () => {
    const victim = await machine.start()
    const [one, two] = [await find(victim.pid), await find(victim.pid)]
    machine.ctl('pause', 'lock', 'before')
    const first = one.park()
    await machine.until('the first to begin', () => machine.ctl('paused') === '1')
    await expect(two.park()).rejects.toMatchObject(code(EGpuErrorCode.DeviceBusy))
    machine.ctl('go-on')
    await first
    expect(machine.process(victim.pid)).toBe('2 0')
    await expect(two.park()).rejects.toMatchObject(code(EGpuErrorCode.DeviceBusy))
    await two.resume()
    expect(machine.process(victim.pid)).toBe('0 0')
  })
})

describe('moving', () => {
  it('goes on on the other GPU with the same bits, and comes back', async () => {
    const victim = await machine.start()
    await (await find(victim.pid)).moveTo(machine.uuid(1))
    expect(machine.process(victim.pid)).toBe('0 1')
    expect((await find(victim.pid)).memory).toEqual([{ uuid: machine.uuid(1), bytes: 2 ** 30 }])
    await (await find(victim.pid)).moveTo(machine.uuid(0))
    expect(machine.process(victim.pid)).toBe('0 0')
    await expectSameBits(victim, machine)
  })

  it('moves a parked process straight to another GPU', async () => {
    const victim = await machine.start()
    await (await find(victim.pid)).park()
    await (await find(victim.pid)).moveTo(machine.uuid(1))
    expect(machine.process(victim.pid)).toBe('0 1')
    await expectSameBits(victim, machine)
  })

  it('maps every GPU of a machine of four', async () => {
    using four = new FakeMachine(4)
    const victim = await four.start({ gpu: 3 })
    const [target] = await listCudaProcesses(four.options)
    await target?.moveTo(four.uuid(1))
    expect(four.process(victim.pid)).toBe('0 1')
    await expectSameBits(victim, four)
  })

  it.each([
    [
      'is not there',
      'GPU-00000000-0000-0000-0000-000000000000',
      (): unknown => undefined,
      EGpuErrorCode.DeviceNotFound,
    ],
    [
      'is of another kind',
      undefined,
      () => machine.ctl('gpu', 1, 'device', 0x2235_10de),
      EGpuErrorCode.TargetIncompatible,
    ],
    [
      'is too full',
      undefined,
      (): unknown => machine.ctl('gpu', 1, 'memory', 2 ** 29),
      EGpuErrorCode.TargetIncompatible,
    ],
    ['needs a newer driver', undefined, (): unknown => machine.ctl('driver', 575, 12_090), EGpuErrorCode.NotSupported],
  ] as const)('touches nothing when the other GPU %s', async (_why, gpu, prepare, expected) => {
    prepare()
    const victim = await machine.start()
    const target = await find(victim.pid)
    await expect(target.moveTo(gpu ?? machine.uuid(1))).rejects.toMatchObject(code(expected))
    expect(machine.log()).toEqual([])
  })

  it('waits for memory on the other GPU that is just being given back', async () => {
    const victim = await machine.start()
    const waits: number[] = []
    const clock: Clock = {
      ...systemClock,
      now: () => systemClock.now(),
      sleep: (ms) => {
        waits.push(ms)
        machine.ctl('gpu', 1, 'memory', 2 ** 34)
        return Promise.resolve()
      },
    }
    const target = await find(victim.pid, { clock })
    machine.ctl('pause', 'checkpoint', 'after')
    const call = target.moveTo(machine.uuid(1))
    await machine.until('the checkpoint', () => machine.ctl('paused') === '1')
    machine.ctl('gpu', 1, 'memory', 2 ** 29)
    machine.ctl('go-on')
    await call
    expect(waits.length).toBeGreaterThan(0)
    expect(machine.process(victim.pid)).toBe('0 1')
  })

  it.each([
    ['after', 'checkpoint'],
    ['before', 'restore'],
  ])('goes back to where it came from when the new GPU is lost %s %s', async (when, step) => {
    const victim = await machine.start()
    const target = await find(victim.pid)
    machine.ctl('pause', step, when)
    const call = target.moveTo(machine.uuid(1))
    await machine.until('the step', () => machine.ctl('paused') === '1')
    machine.ctl('gpu', 1, 'lost', 1)
    machine.ctl('go-on')
    await expect(call).rejects.toMatchObject({ code: EGpuErrorCode.DeviceLost, deviceId: machine.uuid(1) })
    expect(machine.process(victim.pid)).toBe('0 0')
    await expectSameBits(victim, machine)
  })

  it('goes back to where it came from when the new GPU has filled up, without a restore that would be its last', async () => {
    const victim = await machine.start()
    const target = await find(victim.pid)
    machine.ctl('pause', 'checkpoint', 'after')
    const call = target.moveTo(machine.uuid(1))
    await machine.until('the checkpoint', () => machine.ctl('paused') === '1')
    machine.ctl('gpu', 1, 'memory', 2 ** 29)
    machine.ctl('go-on')
    await expect(call).rejects.toMatchObject(code(EGpuErrorCode.TargetIncompatible))
    expect(machine.process(victim.pid)).toBe('0 0')
    expect(machine.log().filter((line) => line.startsWith('restore'))).toEqual([`restore ${victim.pid} 0`])
    await expectSameBits(victim, machine)
  })

  it('leaves parked what does not fit back now', async () => {
    const victim = await machine.start()
    await (await find(victim.pid)).park()
    machine.ctl('gpu', 0, 'memory', 2 ** 29)
    const call = (await find(victim.pid)).resume()
    await expect(call).rejects.toMatchObject(code(EGpuErrorCode.TargetIncompatible))
    expect(machine.process(victim.pid)).toBe('2 0')
    machine.ctl('gpu', 0, 'memory', 2 ** 34)
    await (await find(victim.pid)).resume()
    await expectSameBits(victim, machine)
  })

  it('stays parked and can be resumed later when a resume fails', async () => {
    const victim = await machine.start()
    await (await find(victim.pid)).park()
    machine.unplug(0)
    const target = await find(victim.pid)
    await expect(target.resume()).rejects.toMatchObject(code(EGpuErrorCode.DeviceNotFound))
    expect(machine.process(victim.pid)).toBe('2 0')
    machine.plug(0)
    await (await find(victim.pid)).resume()
    await expectSameBits(victim, machine)
  })
})
