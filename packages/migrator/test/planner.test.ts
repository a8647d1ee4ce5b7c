import { RuntimeKind } from '@egpu/core'
import type { ComputeTarget } from '@egpu/core'
import { chooseTarget, cpuTarget, incompatibility, passedOver, rankTargets } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'

const gpu = (id: string, more: Partial<ComputeTarget> = {}): ComputeTarget => ({
  id,
  name: id,
  kind: 'gpu',
  runtime: RuntimeKind.WebGpu,
  removable: true,
  flops: 1e13,
  ...more,
})
const needs = { runtimes: [RuntimeKind.WebGpu, RuntimeKind.Cpu] }
const cpu = cpuTarget().target

describe('chooseTarget', () => {
  it('takes the faster GPU, an idle one over a shared one, and the CPU only when nothing else is left', () => {
    const slow = gpu('slow', { flops: 4e12 })
    expect(chooseTarget({ needs, targets: [cpu, slow, gpu('fast')] })?.id).toBe('fast')
    const use = (id: string) => ({ workloads: id === 'fast' ? 3 : 0, bytes: 0 })
    expect(chooseTarget({ needs, targets: [cpu, slow, gpu('fast')], use })?.id).toBe('slow')
    expect(
      chooseTarget({ needs, targets: [gpu('away'), cpu], refuse: ({ id }) => (id === 'away' ? 'is lost' : undefined) })
        ?.id,
    ).toBe('cpu')
    expect(chooseTarget({ needs, targets: [] })).toBeUndefined()
  })

  it('takes the CPU first where that is preferred', () => {
    expect(chooseTarget({ needs, targets: [gpu('fast'), cpu], preferCpu: true })?.id).toBe('cpu')
  })

  it('prefers what cannot be unplugged where all else is equal', () => {
    expect(chooseTarget({ needs, targets: [gpu('outside'), gpu('inside', { removable: false })] })?.id).toBe('inside')
  })

  it('agrees with the first of rankTargets', () => {
    const targets = [gpu('a', { flops: 3e12 }), cpu, gpu('b', { flops: 9e12 }), gpu('c', { memoryBytes: 1 })]
    const question = { needs: { ...needs, memoryBytes: 100 }, targets }
    expect(rankTargets(question).map(({ id }) => id)).toEqual(['b', 'a', 'cpu'])
    expect(chooseTarget(question)?.id).toBe('b')
  })
})

describe('incompatibility', () => {
  it('says what is missing', () => {
    expect(incompatibility({ runtimes: ['cuda'] }, gpu('a'))).toContain('webgpu')
    expect(incompatibility({ ...needs, memoryBytes: 10 }, gpu('a', { memoryBytes: 15 }), 6)).toContain(
      '9 of 15 bytes free',
    )
    expect(
      incompatibility({ ...needs, limits: { maxBufferSize: 8 } }, gpu('a', { limits: { maxBufferSize: 4 } })),
    ).toContain('maxBufferSize 4')
    expect(incompatibility({ ...needs, features: ['f16'] }, gpu('a', { features: [] }))).toContain('f16')
  })

  it('does not hold against a target what it does not tell', () => {
    const wants = { ...needs, memoryBytes: 1e12, limits: { maxBufferSize: 8 }, features: ['f16'] }
    expect(incompatibility(wants, gpu('a'))).toBeUndefined()
    expect(incompatibility(wants, gpu('a', { limits: {} }))).toBeUndefined()
  })

  it('is what passedOver tells of each target that was not taken', () => {
    const reasons = passedOver({ needs: { runtimes: ['metal'] }, targets: [gpu('a'), cpu] })
    expect(reasons.map(({ target, reason }) => `${target.id} ${reason}`)).toEqual([
      'a runs webgpu, which the workload has no code for',
      'cpu runs cpu, which the workload has no code for',
    ])
  })
})

describe('cpuTarget', () => {
  it('has no handle, is not removable, and is lost only by being closed', async () => {
    const open = cpuTarget({ name: 'Ryzen', memoryBytes: 5 })
    expect(open.handle).toBeUndefined()
    expect(open.target).toMatchObject({ id: 'cpu', name: 'Ryzen', kind: 'cpu', removable: false, memoryBytes: 5 })
    await open.close()
    await open.close()
    expect(await open.lost).toMatchObject({ reason: 'destroyed' })
  })
})
