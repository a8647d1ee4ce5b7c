import { describe, expect, it } from 'vitest'
import type { PlanOutcome, SafeRemovalCapability, SystemPlan } from '../../src/driver/system-change.ts'
import type { Guest } from '../../src/manager/guest.ts'
import { monitored } from '../helpers/monitored.ts'
import { settle } from '../helpers/manual-clock.ts'
import { seen } from '../helpers/observations.ts'
import { ScriptedDriver } from '../helpers/scripted-driver.ts'

const never = (): Promise<never> => new Promise(() => undefined)
const step = { id: 'remove', title: 'Take it off the bus' }
const plan: SystemPlan = { key: 'a', steps: [step], holders: [], refusals: [], notes: ['mind the fan'] }

/** One device whose driver can remove it, the way the test says. */
async function rig(removal: Partial<SafeRemovalCapability> = {}) {
  const log: string[] = []
  const bus: ScriptedDriver = new ScriptedDriver(
    'bus',
    [seen('a')],
    { safeRemoval: true },
    {
      safeRemoval: {
        plan: (key) => {
          log.push(`plan ${key}`)
          return Promise.resolve(plan)
        },
        run: (_plan, options) => {
          log.push('run')
          options?.onStep?.(step, 'done')
          return Promise.resolve<PlanOutcome>({ done: true })
        },
        ...removal,
      },
    },
  )
  const parts = await monitored([bus])
  const id = parts.manager.devices[0]?.id ?? ''
  const guest = (name: string, leave: Guest['leave']): string[] => {
    const calls: string[] = []
    parts.manager.addGuest({
      name,
      leave: (device, options) => {
        log.push(`${name} leaves`)
        calls.push('leave')
        return leave(device, options)
      },
      stay: () => calls.push('stay'),
    })
    return calls
  }
  return { ...parts, bus, id, log, guest, state: () => parts.manager.find(id)?.state }
}

describe('safeDisconnect', () => {
  it('has the guests leave first, then the driver remove it, and says that it is safe', async () => {
    const { manager, id, guest, log, told, bus } = await rig()
    guest('migrator', (device) => Promise.resolve({ left: true, moved: [`w on ${device.state}`] }))
    const steps: string[] = []
    const result = await manager.safeDisconnect(id, {
      onStep: ({ id: name }, status) => steps.push(`${name} ${status}`),
    })
    expect(result).toMatchObject({
      safeToUnplug: true,
      moved: ['w on migrating'],
      notes: ['mind the fan'],
      device: { id, state: 'removed' },
    })
    expect(log).toEqual(['plan a', 'migrator leaves', 'plan a', 'run'])
    expect(steps).toEqual(['remove done'])
    bus.push({ type: 'device-removed', key: 'a', graceful: false })
    await settle()
    expect(told).toMatchObject([{ type: 'leaving' }, { type: 'disconnected', graceful: true }])
    expect(manager.find(id)).toBeUndefined()
    expect(manager.registry.epoch(id)).toBe(1)
  })

  it('lists every veto, calls back those who left, and leaves the device as it was', async () => {
    const { manager, id, guest, log, clock, types, state } = await rig()
    const migrator = guest('migrator', () => Promise.resolve({ left: true, moved: ['w'] }))
    const editor = guest('editor', () => Promise.resolve({ left: false, reason: 'unsaved scene' }))
    guest('broken', () => Promise.reject(new Error('bug')))
    guest('silent', never)
    const running = manager.safeDisconnect(id, { deadlineMs: 1_000 })
    await settle()
    expect(state()).toBe('migrating')
    await clock.advance(1_000)
    expect(await running).toMatchObject({
      safeToUnplug: false,
      vetoes: [
        { guest: 'editor', reason: 'unsaved scene' },
        { guest: 'broken', reason: 'bug' },
        { guest: 'silent', reason: 'has not left within 1000 ms' },
      ],
      reason: expect.stringContaining('editor (unsaved scene)'),
    })
    expect(migrator).toEqual(['leave', 'stay'])
    expect(editor).toEqual(['leave'])
    expect(log).not.toContain('run')
    expect(state()).toBe('ready')
    expect(types()).toEqual([])
  })

  it('disturbs nobody when the driver rules it out from the start', async () => {
    const { manager, id, guest } = await rig({
      plan: () => Promise.resolve({ ...plan, refusals: ['needs root: run with sudo'] }),
    })
    const migrator = guest('migrator', () => Promise.resolve({ left: true, moved: [] }))
    expect(await manager.safeDisconnect(id)).toMatchObject({
      safeToUnplug: false,
      refusals: ['needs root: run with sudo'],
      reason: 'needs root: run with sudo',
    })
    expect(migrator).toEqual([])
  })

  it('names the processes that still hold it after the guests have left', async () => {
    const holders = [{ pid: 42, name: 'blender', holds: '/dev/nvidia0' }]
    const { manager, id, guest, state } = await rig({ plan: () => Promise.resolve({ ...plan, holders }) })
    const migrator = guest('migrator', () => Promise.resolve({ left: true, moved: [] }))
    expect(await manager.safeDisconnect(id)).toMatchObject({
      safeToUnplug: false,
      holders,
      reason: 'blender (pid 42) holds /dev/nvidia0',
    })
    expect(migrator).toEqual(['leave', 'stay'])
    expect(state()).toBe('ready')
  })

  it.each([
    {
      how: 'fails a step',
      run: () =>
        Promise.resolve({
          done: false,
          failedStep: 'remove',
          reason: 'EBUSY',
          undone: ['unbind'],
          holders: [],
        } as const),
      expected: { failedStep: 'remove', undone: ['unbind'] },
    },
    { how: 'throws', run: () => Promise.reject(new Error('EBUSY')), expected: { failedStep: undefined, undone: [] } },
  ])('takes it back when the driver $how', async ({ run, expected }) => {
    const { manager, id, guest, types, state } = await rig({ run })
    const migrator = guest('migrator', () => Promise.resolve({ left: true, moved: [] }))
    const result = await manager.safeDisconnect(id)
    expect(result).toMatchObject({ safeToUnplug: false, reason: 'EBUSY', ...expected })
    expect(migrator).toEqual(['leave', 'stay'])
    await settle()
    expect(types()).toEqual(['leaving', 'changed'])
    expect(state()).toBe('ready')
  })

  it('warns against pulling the cable while a driver hangs', async () => {
    const { manager, id, clock, state } = await rig({ run: never })
    const running = manager.safeDisconnect(id, { deadlineMs: 1_000 })
    await clock.advance(1_000)
    expect(await running).toMatchObject({ safeToUnplug: false, reason: expect.stringContaining('leave the cable in') })
    expect(state()).toBe('ready')
  })

  it('is one run for all callers of a device', async () => {
    const { manager, id, guest, log } = await rig()
    guest('migrator', async () => {
      await settle()
      return { left: true, moved: [] }
    })
    const [one, two] = await Promise.all([manager.safeDisconnect(id), manager.safeDisconnect(id)])
    expect(one).toBe(two)
    expect(log.filter((line) => line === 'run')).toHaveLength(1)
    await expect(manager.safeDisconnect(id)).rejects.toMatchObject({ code: 'EGPU_DEVICE_NOT_FOUND' })
  })

  it('goes on for the other callers when one aborts, and is called off with the last', async () => {
    const { manager, id, guest, state, log } = await rig()
    let told = false
    guest('slow', (_device, { signal }) => {
      signal?.addEventListener('abort', () => {
        told = true
      })
      return never()
    })
    const controllers = [new AbortController(), new AbortController()] as const
    const reason = new Error('enough')
    const runs = controllers.map(({ signal }) => manager.safeDisconnect(id, { signal }))
    const [first, last] = runs.map((run) => expect(run).rejects.toBe(reason))
    await settle()
    controllers[0].abort(reason)
    await first
    expect(told).toBe(false)
    controllers[1].abort(reason)
    await last
    await settle()
    expect(told).toBe(true)
    expect(state()).toBe('ready')
    expect(log).not.toContain('run')
  })

  it('reports a loss in the middle as what it is', async () => {
    const { manager, id, bus, types } = await rig({
      run: async () => {
        bus.push({ type: 'device-lost', key: 'a', reason: 'cable pulled' })
        await settle()
        return { done: false, failedStep: 'remove', reason: 'ENODEV', undone: [], holders: [] }
      },
    })
    expect(await manager.safeDisconnect(id)).toMatchObject({ safeToUnplug: false, device: { state: 'lost', epoch: 2 } })
    await settle()
    expect(types()).toEqual(['leaving', 'lost', 'health-changed'])
  })

  it('cannot be done without a driver that can', async () => {
    const { manager } = await monitored([new ScriptedDriver('bus', [seen('a')])])
    const id = manager.devices[0]?.id ?? ''
    await expect(manager.safeDisconnect(id)).rejects.toMatchObject({ code: 'EGPU_NOT_SUPPORTED', deviceId: id })
    await expect(manager.planDisconnect(id)).rejects.toMatchObject({ code: 'EGPU_NOT_SUPPORTED' })
  })

  it('is called off when the manager closes', async () => {
    const { manager, id, guest } = await rig()
    guest('silent', never)
    const running = manager.safeDisconnect(id)
    await settle()
    await Promise.all([expect(running).rejects.toMatchObject({ code: 'EGPU_CLOSED' }), manager.close()])
  })
})

it('planDisconnect shows what would be done and does nothing', async () => {
  const { manager, id, guest, log, state } = await rig()
  const calls = guest('migrator', () => Promise.resolve({ left: true, moved: [] }))
  expect(await manager.planDisconnect(id)).toMatchObject({
    device: { id },
    driver: 'bus',
    guests: ['migrator'],
    removal: { steps: [step] },
  })
  expect(calls).toEqual([])
  expect(log).toEqual(['plan a'])
  expect(state()).toBe('ready')
})

describe('safeDisconnect under abuse', () => {
  it('starts afresh for a caller who comes while an earlier one is being called off', async () => {
    const runs: RemovalUnderWay[] = []
    const { manager, id } = await rig({
      run: (_plan, options) =>
        new Promise((resolve) => {
          runs.push({ resolve, aborted: () => options?.signal?.aborted === true })
        }),
    })
    const first = new AbortController()
    const called = manager.safeDisconnect(id, { signal: first.signal })
    await settle()
    const reason = new Error('changed my mind')
    first.abort(reason)
    const second = manager.safeDisconnect(id)
    await expect(called).rejects.toBe(reason)
    expect(runs.map(({ aborted }) => aborted())).toEqual([true])
    runs[0]?.resolve({ done: false, failedStep: 'remove', reason: 'called off', undone: [], holders: [] })
    await settle()
    runs[1]?.resolve({ done: true })
    expect(await second).toMatchObject({ safeToUnplug: true })
  })

  it('goes on when a listener of the steps throws, and tells of it', async () => {
    const { manager, id, told } = await rig()
    const error = new Error('progress bar is gone')
    const result = await manager.safeDisconnect(id, {
      onStep: () => {
        throw error
      },
    })
    expect(result.safeToUnplug).toBe(true)
    expect(told).toContainEqual(expect.objectContaining({ type: 'listener-failed', error }))
  })

  it('tells of a guest whose stay() rejects', async () => {
    const { manager, id, guest, told } = await rig()
    const error = new Error('cannot stay')
    manager.addGuest({
      name: 'flaky',
      leave: () => Promise.resolve({ left: true, moved: [] }),
      stay: () => Promise.reject(error),
    })
    guest('stubborn', () => Promise.resolve({ left: false, reason: 'busy' }))
    expect((await manager.safeDisconnect(id)).safeToUnplug).toBe(false)
    await settle()
    expect(told).toContainEqual(
      expect.objectContaining({ type: 'listener-failed', event: 'stay of guest flaky', error }),
    )
  })

  it.each([
    ['the guests leave', 'guests'],
    ['the driver removes it, dead first', 'removal'],
  ])('calls a cable that is pulled while %s pulled, not graceful', async (_when, phase) => {
    const hang = phase === 'removal' ? { run: never } : {}
    const { manager, id, guest, bus, told } = await rig(hang)
    if (phase === 'guests') guest('slow', never)
    const end = new AbortController()
    const disconnecting = manager.safeDisconnect(id, { signal: end.signal }).catch(() => undefined)
    await settle()
    if (phase === 'removal') bus.push({ type: 'device-lost', key: 'a', reason: 'the cable is out' })
    bus.push({ type: 'device-removed', key: 'a', graceful: false })
    await settle()
    expect(told.filter(({ type }) => type === 'lost' || type === 'disconnected')).toMatchObject([
      { type: 'lost' },
      { type: 'disconnected', graceful: false },
    ])
    end.abort()
    await disconnecting
  })
})

interface RemovalUnderWay {
  readonly resolve: (outcome: PlanOutcome) => void
  readonly aborted: () => boolean
}
