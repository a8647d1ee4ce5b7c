import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { FakeMachine } from '../../../packages/driver-cuda/test/machine.ts'
import { stepAside } from '../src/step-aside.ts'

vi.setConfig({ testTimeout: 60_000 })

let machine: FakeMachine

beforeEach(() => {
  machine = new FakeMachine(1)
})

afterEach(() => machine[Symbol.dispose]())

it('parks a program that knows nothing of it, and lets it go on with the same bits', async () => {
  const victim = await machine.start()
  const lines: string[] = []
  let whileOut = ''
  const plugged = async (): Promise<void> => void (whileOut = machine.process(victim.pid))
  await stepAside((line) => lines.push(line), plugged, machine.options)
  expect(whileOut).toBe('2 0')
  expect(lines).toEqual([
    'NVIDIA GeForce RTX 4090',
    `  victim (pid ${victim.pid}), 1074 MB: park`,
    expect.stringMatching(`^parked ${victim.pid} in \\d+ ms; the GPU is free$`),
    `${victim.pid} goes on`,
  ])
  const output = await victim.finish()
  expect(output).toEqual(machine.undisturbed(output.length - 1))
})

it('does nothing where there is no CUDA', async () => {
  const lines: string[] = []
  await stepAside(
    (line) => lines.push(line),
    async () => {},
    { nvmlLibrary: '/nowhere/libnvidia-ml.so.1' },
  )
  expect(lines).toEqual([expect.stringContaining('nothing to do')])
})
