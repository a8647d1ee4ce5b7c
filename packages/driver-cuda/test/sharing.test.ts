import { EGpuErrorCode } from '@egpu/core'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { listCudaProcesses } from '../src/index.ts'
import type { CudaProcess } from '../src/index.ts'
import { FakeMachine } from './machine.ts'

vi.setConfig({ testTimeout: 60_000 })

let machine: FakeMachine

beforeEach(() => {
  machine = new FakeMachine()
})

afterEach(() => machine[Symbol.dispose]())

async function find(pid: number): Promise<CudaProcess> {
  return (await listCudaProcesses(machine.options)).find((one) => one.pid === pid) as CudaProcess
}

async function expectRefused(pid: number, code: string): Promise<void> {
  const target = await find(pid)
  expect(target.checkpointable).toMatchObject({ possible: false, reasons: [{ code }] })
  await expect(target.park()).rejects.toMatchObject({ code: EGpuErrorCode.NotSupported })
  expect(machine.log()).toEqual([])
}

it('refuses who has memory of another process open, and whose memory it may be', async () => {
  const [exporter, importer, elsewhere] = [
    await machine.start(),
    await machine.start(),
    await machine.start({ gpu: 1 }),
  ]
  machine.ctl('import', importer.pid, 2 ** 20)
  await expectRefused(importer.pid, 'ipc')
  await expectRefused(exporter.pid, 'ipc')
  expect((await find(elsewhere.pid)).checkpointable).toEqual({ possible: true })
  machine.ctl('import', importer.pid, 0)
  await (await find(importer.pid)).park()
  await (await find(importer.pid)).resume()
  expect(machine.process(importer.pid)).toBe('0 0')
})

it('lets go again of who opens shared memory just before it is stopped', async () => {
  const victim = await machine.start()
  const target = await find(victim.pid)
  machine.ctl('pause', 'lock', 'after')
  const call = target.park()
  await machine.until('the lock', () => machine.ctl('paused') === '1')
  machine.ctl('import', victim.pid, 4_096)
  machine.ctl('go-on')
  await expect(call).rejects.toMatchObject({ code: EGpuErrorCode.NotSupported })
  expect(machine.log()).toEqual([`lock ${victim.pid} 0`, `unlock ${victim.pid} 0`])
})

it('with a kernel driver that cannot be asked, parks only who is alone', async () => {
  machine.ctl('foreign-kernel', 1)
  const [one, two] = [await machine.start(), await machine.start()]
  await expectRefused(one.pid, 'ipc')
  two.child.kill('SIGKILL')
  await two.output
  await (await find(one.pid)).park()
  expect(machine.process(one.pid)).toBe('2 0')
})

it.each([
  ['a CUDA event shared with others', 'event', 'ipc'],
  ['a NCCL communicator', 'nccl', 'ipc'],
  ['managed memory', 'managed', 'uvm'],
] as const)('sees %s from outside', async (_what, trait, code) => {
  const victim = await machine.start({ traits: [trait] })
  await expectRefused(victim.pid, code)
})

it('parks who uses NCCL with buffers of its own', async () => {
  const victim = await machine.start({ traits: ['nccl'], environment: { NCCL_CUMEM_HOST_ENABLE: '0' } })
  expect((await find(victim.pid)).checkpointable).toEqual({ possible: true })
})

it('tells which GPUs a program keeps from leaving', async () => {
  const [seesAll, seesOne] = [await machine.start(), await machine.start({ gpu: 1, traits: ['only'] })]
  expect((await find(seesAll.pid)).opens).toEqual([machine.uuid(0), machine.uuid(1)])
  expect((await find(seesOne.pid)).opens).toEqual([machine.uuid(1)])
  await (await find(seesAll.pid)).park()
  expect((await find(seesAll.pid)).opens).toEqual([])
})
