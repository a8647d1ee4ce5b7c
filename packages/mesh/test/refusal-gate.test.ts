import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { expect, it } from 'vitest'
import { RefusalGate } from '../src/refusal-gate.ts'

const refusal = (address: string, peerId?: string) => ({
  address,
  peerId,
  error: new EGpuError(EGpuErrorCode.PeerNotTrusted, 'no'),
})

it('tells of a stranger that dials again and again now and then, and of another one at once', () => {
  const gate = new RefusalGate()
  const told = Array.from({ length: 1_000 }, (_, at) => gate.isNews(refusal('fe80::1'), at * 100))
  expect(told.filter(Boolean)).toHaveLength(20)
  expect(gate.isNews(refusal('fe80::2'), 100_000)).toBe(true)
  expect(gate.isNews(refusal('fe80::2', 'key'), 100_000)).toBe(true)
})

it('tells of a flood from many addresses in part, and of the next one afterwards', () => {
  const gate = new RefusalGate()
  const told = Array.from({ length: 10_000 }, (_, at) => gate.isNews(refusal(`fe80::${at}`), at / 10))
  expect(told.filter(Boolean).length).toBeLessThan(100)
  expect(gate.isNews(refusal('fe80::1'), 100_000)).toBe(true)
})
