import { describe, expect, it } from 'vitest'
import type { RuntimeCapability } from '../../src/driver/driver.ts'
import type { ComputeTarget, OpenTarget, TargetLoss } from '../../src/types/target.ts'
import { monitored } from '../helpers/monitored.ts'
import { settle } from '../helpers/manual-clock.ts'
import { adapter, seen } from '../helpers/observations.ts'
import { ScriptedDriver } from '../helpers/scripted-driver.ts'

const gpu: ComputeTarget = { id: 't', name: 'GPU', kind: 'gpu', runtime: 'webgpu', deviceId: 'w', removable: false }
const cpu: ComputeTarget = { id: 't', name: 'CPU', kind: 'cpu', runtime: 'cpu', removable: false }

class Opened implements OpenTarget {
  readonly target: ComputeTarget
  readonly epoch = 7
  readonly handle = 'handle'
  readonly lost: Promise<TargetLoss>
  lose: (loss: TargetLoss['reason']) => void = () => undefined
  closed = 0

  constructor(target: ComputeTarget) {
    this.target = target
    this.lost = new Promise((resolve) => {
      this.lose = (reason) => resolve({ reason, message: `it was ${reason}`, atMs: 0 })
    })
  }

  close(): Promise<void> {
    this.closed += 1
    this.lose('destroyed')
    return Promise.resolve()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

async function rig(runtime: Partial<RuntimeCapability> = {}) {
  const link = { hops: [], effectiveGBps: { toDevice: 2.8, fromDevice: 2.8 } }
  const bus = new ScriptedDriver('bus', [seen('a', { link })])
  const opened: Opened[] = []
  const wgpu = new ScriptedDriver(
    'wgpu',
    [adapter('w')],
    { verdict: false, runtimes: ['webgpu'] },
    {
      runtime: {
        targets: () => Promise.resolve([gpu]),
        open: () => {
          const target = new Opened(gpu)
          opened.push(target)
          return Promise.resolve(target)
        },
        ...runtime,
      },
    },
  )
  const host = new ScriptedDriver(
    'host',
    [],
    { runtimes: ['cpu'] },
    {
      runtime: { targets: () => Promise.resolve([cpu]), open: () => Promise.resolve(new Opened(cpu)) },
    },
  )
  const parts = await monitored([bus, wgpu, host])
  return { ...parts, bus, wgpu, opened, id: parts.manager.devices[0]?.id ?? '' }
}

describe('targets', () => {
  it('have ids of their own, the fused device, and what the bus knows about its cable', async () => {
    const { manager, id } = await rig()
    expect(await manager.targets()).toMatchObject([
      { id: 'wgpu/t', deviceId: id, removable: true, linkGBps: { toDevice: 2.8 } },
      { id: 'host/t', deviceId: undefined, removable: false },
    ])
  })

  it('are removable, fixed or neither, as the bus and the runtime know', async () => {
    const unknown = (): Promise<readonly ComputeTarget[]> => Promise.resolve([{ ...gpu, removable: undefined }])
    const cases = [
      ['external', true],
      ['internal', false],
      ['unknown', undefined],
    ] as const
    for (const [conclusion, removable] of cases) {
      const { manager, bus } = await rig({ targets: unknown })
      bus.push({
        type: 'device-observed',
        device: seen('a', { verdict: { conclusion, confidence: 0.9, evidence: [] } }),
      })
      await settle()
      expect((await manager.targets())[0]?.removable).toBe(removable)
    }
  })

  it('of the other drivers come although one throws', async () => {
    const { manager, types } = await rig({ targets: () => Promise.reject(new Error('no Vulkan')) })
    expect((await manager.targets()).map(({ id }) => id)).toEqual(['host/t'])
    await settle()
    expect(types()).toEqual(['driver-failed'])
  })

  it('carry the epoch of the device, and make it active while they are open', async () => {
    const { manager, id, opened } = await rig()
    const target = await manager.openTarget('wgpu/t')
    const second = await manager.openTarget('wgpu/t')
    expect(target).toMatchObject({ epoch: 1, handle: 'handle', target: { id: 'wgpu/t', deviceId: id } })
    expect(manager.get(id).state).toBe('active')
    await target.close()
    await target.close()
    expect(manager.get(id).state).toBe('active')
    await second[Symbol.asyncDispose]()
    expect(manager.get(id)).toMatchObject({ state: 'ready', epoch: 1 })
    expect(opened.every(({ closed }) => closed > 0)).toBe(true)
    expect(await target.lost).toMatchObject({ reason: 'destroyed' })
    expect((await manager.openTarget('host/t')).epoch).toBe(7)
  })

  it('that are lost have the device marked and told before their own lost resolves', async () => {
    const { manager, id, opened, told } = await rig()
    const target = await manager.openTarget('wgpu/t')
    await manager.openTarget('wgpu/t')
    opened[0]?.lose('unplugged')
    expect(await target.lost).toMatchObject({ reason: 'unplugged' })
    expect(manager.get(id)).toMatchObject({ state: 'lost', epoch: 2 })
    opened[1]?.lose('unplugged')
    await settle()
    expect(told).toMatchObject([{ type: 'lost', reason: 'wgpu: it was unplugged' }, { type: 'health-changed' }])
    expect(() => manager.registry.assertEpoch(id, target.epoch)).toThrow(
      expect.objectContaining({ code: 'EGPU_STALE_EPOCH' }),
    )
    await expect(manager.openTarget('wgpu/t')).rejects.toMatchObject({ code: 'EGPU_DEVICE_LOST', deviceId: id })
    expect(opened[2]?.closed).toBe(1)
  })

  it('do not count a loss twice that a driver has told already', async () => {
    const { manager, id, opened, bus } = await rig()
    await manager.openTarget('wgpu/t')
    bus.push({ type: 'device-lost', key: 'a', reason: 'gone' })
    await settle()
    opened[0]?.lose('unplugged')
    await settle()
    expect(manager.registry.epoch(id)).toBe(2)
  })

  it('that open after the caller has gone are closed', async () => {
    const late = new Opened(gpu)
    let answer: (target: OpenTarget) => void = () => undefined
    const { manager, id } = await rig({
      open: () =>
        new Promise((resolve) => {
          answer = resolve
        }),
    })
    const controller = new AbortController()
    const opening = manager.openTarget('wgpu/t', { signal: controller.signal })
    await settle()
    controller.abort(new Error('enough'))
    await expect(opening).rejects.toThrow('enough')
    answer(late)
    await settle()
    expect(late.closed).toBe(1)
    expect(manager.get(id).state).toBe('ready')
  })

  it('close with the manager', async () => {
    const { manager, opened } = await rig()
    await manager.openTarget('wgpu/t')
    await manager.close()
    expect(opened[0]?.closed).toBe(1)
  })
})
