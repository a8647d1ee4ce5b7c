import type { Evidence } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { combine } from '../../src/verdict/combine.ts'

const external = (weight: number): Evidence => ({ signal: 'a', value: true, weight, points: 'external' })
const internal = (weight: number): Evidence => ({ signal: 'b', value: true, weight, points: 'internal' })

describe('combine', () => {
  it('knows nothing without evidence', () => {
    expect(combine([])).toEqual({ external: 0, internal: 0 })
  })

  it('adds up what agrees, and never reaches certainty by it', () => {
    const { external: belief } = combine([external(0.7), external(0.6), external(0.5)])
    expect(belief).toBeCloseTo(0.94)
    expect(belief).toBeLessThan(1)
  })

  it('lets contradicting evidence take from both sides', () => {
    const alone = combine([external(0.7)]).external
    const contradicted = combine([external(0.7), internal(0.5)])
    expect(contradicted.external).toBeLessThan(alone)
    expect(contradicted.external).toBeGreaterThan(contradicted.internal)
  })

  it('decides nothing between two certainties', () => {
    expect(combine([external(1), internal(1)])).toEqual({ external: 0, internal: 0 })
  })

  it('ignores evidence that points nowhere', () => {
    expect(combine([{ signal: 'c', value: 1, weight: 1, points: 'neither' }])).toEqual({ external: 0, internal: 0 })
  })
})
