import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { ComputeTarget, OpenTarget } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { bench } from './helpers/bench.ts'
import { disguised, onOpen } from './helpers/bookkeeping.ts'
import { mixed, Mixer } from './helpers/mixer.ts'

/** Failures that were seen in the field, each with where. */
describe('a device that comes back elsewhere (cuda-checkpoint issue 48)', () => {
  it('is told by the address it has now, in every event and wherever the work is asked for', async () => {
    await using machine = await bench({ boxes: 2, failBackAfterMs: 100 })
    const { clock, migrator, manager, boxes } = machine
    const addressOf = (target: ComputeTarget | undefined): string | undefined =>
      manager.find(target?.deviceId ?? '')?.identity.pciAddress
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(150)
    const before = addressOf(run.where)
    boxes[0]?.yank()
    await clock.advance(50)
    expect(run.where?.name).toBe('B')
    boxes[0]?.plug({ port: 'domain1/port3' })
    const { migration } = await machine.until(
      manager.next('migration-completed', { where: (event) => event.migration.reason === 'returned' }),
    )
    const after = addressOf(migration.to)
    expect(after).toMatch(/^[\da-f]{4}:/)
    expect(after).not.toBe(before)
    expect(addressOf(run.where)).toBe(after)
    // What is remembered to go back to is the device, not where it was.
    boxes[0]?.yank()
    await clock.advance(50)
    boxes[0]?.plug({ port: 'domain0/port1' })
    await machine.until(run.finished)
    expect(mixer.result).toBe(mixed(256, 1_000))
  })
})

describe('a device that its runtime takes for built in (NVIDIA open-gpu-kernel-modules issue 894)', () => {
  it('counts as one that can be pulled, because its cable says so', async () => {
    await using machine = await bench({ boxes: 1, machine: { gpus: [{ id: 'inside', name: 'inside', flops: 5e12 }] } })
    const { clock, migrator, manager, driver } = machine
    const { runtime } = driver
    if (runtime === undefined) throw new Error('the simulator has a runtime')
    const list = runtime.targets.bind(runtime)
    runtime.targets = async (options) => (await list(options)).map((target) => ({ ...target, removable: false }))
    onOpen(driver, async (open) => disguised(open, { removable: false }))
    const targets = await machine.until(manager.targets())
    expect(targets.map(({ name, removable }) => [name, removable])).toEqual(
      expect.arrayContaining([
        ['A', true],
        ['inside', false],
      ]),
    )
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer, { constraints: { removable: false }, startOn: 'sim/sim:gpu-A' })
    expect((await machine.until(run.started)).name).toBe('inside')
    await expect(machine.until(run.moveTo('sim/sim:gpu-A'))).rejects.toThrow('can be pulled')
    await machine.until(run.finished)
    expect(mixer.result).toBe(mixed(256, 1_000))
  })
})

describe('a handle that the garbage collector takes while it is in use (dawn.node issue 18)', () => {
  it('is held for as long as work is on it, and let go of afterwards', async () => {
    setFlagsFromString('--expose-gc')
    const gc = runInNewContext('gc') as () => void
    await using machine = await bench({ boxes: 2, failBackAfterMs: 20 })
    const { clock, migrator, boxes, driver } = machine
    const inUse = new Set<number>()
    const collected: number[] = []
    const early: number[] = []
    const registry = new FinalizationRegistry((id: number) => {
      collected.push(id)
      if (inUse.has(id)) early.push(id)
    })
    let count = 0
    onOpen(driver, async (open): Promise<OpenTarget> => {
      const id = (count += 1)
      inUse.add(id)
      const mine: OpenTarget = {
        ...disguised(open, {}),
        close: () => {
          inUse.delete(id)
          return open.close()
        },
      }
      void open.lost.then(() => inUse.delete(id))
      registry.register(mine, id)
      return mine
    })
    const mixer = new Mixer({ clock, steps: 2_000 })
    const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
    for (let round = 0; round < 12; round += 1) {
      await clock.advance(40)
      if (round % 3 === 0) boxes[0]?.yank()
      if (round % 3 === 1) boxes[0]?.plug()
      gc()
      // Finalizers run between two turns of the event loop.
      await new Promise((resolve) => setImmediate(resolve))
    }
    await machine.until(run.finished)
    expect(mixer.result).toBe(mixed(256, 2_000))
    expect(count).toBeGreaterThan(3)
    expect(early).toEqual([])
    for (let turn = 0; turn < 200 && collected.length === 0; turn += 1) {
      gc()
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    expect(collected.length).toBeGreaterThan(0)
  })
})
