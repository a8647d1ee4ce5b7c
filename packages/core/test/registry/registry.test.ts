import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { EGpuError } from '../../src/error.ts'
import { GpuDeviceRegistry } from '../../src/registry/registry.ts'
import { GpuDeviceState } from '../../src/registry/states.ts'
import { epochStates, transitions } from '../../src/registry/transitions.ts'
import { ManualClock } from '../helpers/manual-clock.ts'

const states = Object.values(GpuDeviceState)

describe('the registry', () => {
  it('refuses a step the table does not have, and says from where, to where and what is allowed', () => {
    const registry = new GpuDeviceRegistry()
    registry.add('gpu', 'seen')
    expect(() => registry.transition('gpu', 'migrating', 'test')).toThrow(
      expect.objectContaining({
        code: 'EGPU_ILLEGAL_TRANSITION',
        deviceId: 'gpu',
        message:
          'device gpu cannot go from discovered to migrating (test); from discovered it can go to ready, leaving, lost, wedged, removed',
      }),
    )
    expect(registry.get('gpu')).toMatchObject({ state: 'discovered', epoch: 1 })
  })

  it('lets a device that is dead or gone live again by returning only', () => {
    for (const state of ['lost', 'wedged', 'removed'] as const) {
      const alive = transitions[state].filter((to) => !['lost', 'wedged', 'removed'].includes(to))
      expect(alive).toEqual(['returned'])
    }
  })

  it('keeps history with time and reason, the newest steps only', async () => {
    const clock = new ManualClock()
    const registry = new GpuDeviceRegistry({ clock, historyLimit: 2 })
    registry.add('gpu', 'seen')
    await clock.advance(10)
    registry.transition('gpu', 'ready', 'bound')
    await clock.advance(10)
    registry.transition('gpu', 'lost', 'cable')
    expect(registry.history('gpu')).toEqual([
      { from: 'discovered', to: 'ready', atMs: 1_010, reason: 'bound', epoch: 1 },
      { from: 'ready', to: 'lost', atMs: 1_020, reason: 'cable', epoch: 2 },
    ])
    expect(registry.get('gpu')).toEqual({ id: 'gpu', state: 'lost', epoch: 2, sinceMs: 1_020, reason: 'cable' })
  })

  it('refuses wrong arguments and unknown ids', () => {
    expect(() => new GpuDeviceRegistry({ historyLimit: 0 })).toThrow(TypeError)
    const registry = new GpuDeviceRegistry()
    registry.add('gpu', 'seen')
    expect(() => registry.add('gpu', 'again')).toThrow(TypeError)
    for (const ask of ['get', 'state', 'epoch', 'history'] as const) {
      expect(() => registry[ask]('nope')).toThrow(expect.objectContaining({ code: 'EGPU_DEVICE_NOT_FOUND' }))
    }
    expect(registry.find('nope')).toBeUndefined()
    expect(() => registry.assertEpoch('gpu', 2)).toThrow(expect.objectContaining({ code: 'EGPU_STALE_EPOCH' }))
    registry.assertEpoch('gpu', 1)
  })

  it('never reaches a state by a step outside the table, and its history explains every state', () => {
    const steps = fc.array(fc.record({ id: fc.constantFrom('a', 'b'), to: fc.constantFrom(...states) }), {
      maxLength: 300,
    })
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 50 }), (sequence, historyLimit) => {
        const registry = new GpuDeviceRegistry({ historyLimit })
        registry.add('a', 'seen')
        registry.add('b', 'seen')
        const epochs = { a: 1, b: 1 }
        const taken = { a: 1, b: 1 }
        const refused: [string, unknown, unknown][] = []
        for (const { id, to } of sequence as { id: 'a' | 'b'; to: GpuDeviceState }[]) {
          const before = registry.get(id)
          const allowed = registry.canTransition(id, to)
          expect(allowed).toBe(transitions[before.state].includes(to))
          if (allowed) {
            registry.transition(id, to, `to ${to}`)
            epochs[id] += epochStates.has(to) ? 1 : 0
            taken[id] += 1
          } else {
            refused.push([codeOf(() => registry.transition(id, to, 'no')), registry.get(id), before])
          }
        }
        for (const id of ['a', 'b'] as const) {
          const history = registry.history(id)
          expect(history).toHaveLength(Math.min(taken[id], historyLimit))
          expect(history.at(-1)).toMatchObject({ to: registry.state(id), epoch: epochs[id] })
          const steps = history.filter(({ from }) => from !== undefined)
          expect(steps.every(({ from, to }) => transitions[from as GpuDeviceState].includes(to))).toBe(true)
          expect(history.slice(1).map(({ from }) => from)).toEqual(history.slice(0, -1).map(({ to }) => to))
        }
        expect(refused.every(([code]) => code === 'EGPU_ILLEGAL_TRANSITION')).toBe(true)
        expect(refused.map(([, after]) => after)).toEqual(refused.map(([, , before]) => before))
        const counted = states.map((state) => registry.count(state)).reduce((sum, count) => sum + count)
        expect(counted).toBe(registry.size)
        expect(states.flatMap((state) => registry.ids(state)).sort()).toEqual(['a', 'b'])
      }),
    )
  })
})

function codeOf(call: () => unknown): string {
  try {
    call()
    return 'nothing was thrown'
  } catch (error) {
    return (error as EGpuError).code
  }
}
