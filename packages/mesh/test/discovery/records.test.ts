import { decode, encode } from 'dns-packet'
import { describe, expect, it } from 'vitest'
import { fromRecords, toRecords, type Announcement, type Answer } from '../../src/discovery/records.ts'

const announcement: Announcement = {
  nodeId: 'a'.repeat(64),
  instance: '0123456789abcdef',
  hostTag: 'fedcba9876543210',
  port: 47_413,
  pairing: false,
}
const onTheWire = (records: readonly Answer[]): readonly Answer[] => {
  const packet = decode(encode({ type: 'response', answers: [...records] }))
  return packet.answers ?? []
}

describe('an announcement', () => {
  it('comes out of a DNS packet as it went in', () => {
    expect(fromRecords(onTheWire(toRecords(announcement)))).toEqual([announcement])
    expect(fromRecords(onTheWire(toRecords({ ...announcement, pairing: true })))).toEqual([
      { ...announcement, pairing: true },
    ])
  })

  it.each([
    ['an id that is no fingerprint', { nodeId: 'A'.repeat(64) }],
    ['an instance that is none', { instance: 'x' }],
    ['a host tag that is none', { hostTag: '' }],
    ['no port', { port: 0 }],
  ])('with %s is left out', (_what, changes) => {
    expect(fromRecords(toRecords({ ...announcement, ...changes }))).toEqual([])
  })

  it('without its text, or for another service, is left out', () => {
    const records = toRecords(announcement)
    expect(fromRecords(records.filter(({ type }) => type !== 'TXT'))).toEqual([])
    expect(fromRecords(records.map((record) => ({ ...record, name: 'x._http._tcp.local' })))).toEqual([])
  })

  it('is one of sixteen at most in a packet', () => {
    const many = Array.from({ length: 100 }, (_, index) =>
      toRecords({ ...announcement, instance: index.toString(16).padStart(16, '0') }),
    ).flat()
    expect(fromRecords(many)).toHaveLength(16)
  })
})
