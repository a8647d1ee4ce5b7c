import { describe, expect, it } from 'vitest'
import { readOffer } from '../src/offers.ts'

const target = { id: 'gpu-1', name: 'RTX', kind: 'gpu', runtime: 'cuda', removable: true, memoryBytes: 24e9 }

describe('an offer of targets', () => {
  it('is taken as it is, without fields nobody knows', () => {
    expect(readOffer([{ ...target, limits: { x: 1 }, features: ['f'], flops: 1e12, evil: true }])).toEqual([
      { ...target, limits: { x: 1 }, features: ['f'], flops: 1e12 },
    ])
  })

  it('survives JSON, where what is not known is missing or null', () => {
    expect(readOffer(JSON.parse(JSON.stringify([{ ...target, flops: null, memoryGBps: undefined }])))).toEqual([target])
  })

  it.each([
    ['no list', {}],
    ['too long', Array.from({ length: 65 }, (_, index) => ({ ...target, id: String(index) }))],
    ['twice the same id', [target, target]],
    ['negative memory', [{ ...target, memoryBytes: -1 }]],
    ['half a byte', [{ ...target, memoryBytes: 0.5 }]],
    ['memory beyond every machine', [{ ...target, memoryBytes: 1e300 }]],
    ['memory in words', [{ ...target, memoryBytes: '24 GB' }]],
    ['infinite flops', [{ ...target, flops: Infinity }]],
    ['an unknown runtime', [{ ...target, runtime: 'magic' }]],
    ['an unknown kind', [{ ...target, kind: '__proto__' }]],
    ['a name without end', [{ ...target, name: 'x'.repeat(129) }]],
    ['no object', [null]],
    ['limits that are none', [{ ...target, limits: { x: 'y' } }]],
    ['features that are none', [{ ...target, features: [1] }]],
  ])('is refused whole: %s', (_what, body) => {
    expect(() => readOffer(body)).toThrow(/the offer is refused/)
  })

  it('shows no control characters of a peer', () => {
    expect(readOffer([{ ...target, name: 'a\u001b[2Jb\u202e' }])[0]?.name).toBe('a[2Jb')
  })
})
