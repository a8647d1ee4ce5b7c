import { describe, expect, it } from 'vitest'
import {
  parseBars,
  parseLaneSpeed,
  parseLargestBar,
  parseMilli,
  parseName,
  parsePcieSpeed,
  parsePcieWidth,
  parseSerialNumber,
  parseUuid,
} from '../../src/sysfs/parse.ts'

describe('attribute texts', () => {
  it.each([
    ['20.0 Gb/s', 20],
    ['10 Gb/s', 10],
    ['00.0 Gb/s', undefined],
    ['30.0 Gb/s', undefined],
    ['20.0', undefined],
  ])('lane speed %s', (text, value) => expect(parseLaneSpeed(text)).toBe(value))

  it.each([
    ['2.5 GT/s PCIe', 2.5],
    ['16.0 GT/s PCIe', 16],
    ['8 GT/s', 8],
    ['Unknown', undefined],
    ['7.0 GT/s PCIe', undefined],
  ])('PCI Express speed %s', (text, value) => expect(parsePcieSpeed(text)).toBe(value))

  it.each([
    ['4', 4],
    ['0', undefined],
    ['255', undefined],
    ['63', undefined],
    ['', undefined],
  ])('PCI Express width %s', (text, value) => expect(parsePcieWidth(text)).toBe(value))

  it('cuts escape sequences out of names, and keeps the rest', () => {
    expect(parseName('\u001b]0;owned\u0007Core\u001b[31m X\u202e V2\n')).toBe(']0;ownedCore[31m X V2')
    expect(parseName('\u0000\n')).toBeUndefined()
  })

  it('knows an assigned memory window from one the kernel found no room for', () => {
    const text = [
      '0x0000006000000000 0x0000006003ffffff 0x0000000000040200',
      '0x0000000000000000 0x00000007ffffffff 0x0000000020102200',
      '0x0000000000000000 0x0000000000000000 0x0000000000000000',
      '0x0000000000003000 0x000000000000307f 0x0000000000040101',
    ].join('\n')
    expect(parseBars(text)).toEqual([
      { index: 0, sizeBytes: 64 * 2 ** 20, assigned: true, prefetchable: false },
      { index: 1, sizeBytes: 32 * 2 ** 30, assigned: false, prefetchable: true },
    ])
  })

  it('reads the largest size of a resizable BAR from its bit mask', () => {
    expect(parseLargestBar('000000000000ffc0')).toBe(32 * 2 ** 30)
    expect(parseLargestBar('0')).toBeUndefined()
    expect(parseLargestBar('zz')).toBeUndefined()
  })

  it('takes a serial number of all ones or zeros for none', () => {
    expect(parseSerialNumber('01-23-45-67-89-AB-CD-EF')).toBe('0123456789abcdef')
    expect(parseSerialNumber('ff-ff-ff-ff-ff-ff-ff-ff')).toBeUndefined()
    expect(parseSerialNumber('00-00-00-00-00-00-00-00')).toBeUndefined()
  })

  it('reads power delivery numbers and unique ids', () => {
    expect(parseMilli('20000mV')).toBe(20)
    expect(parseMilli('20V')).toBeUndefined()
    expect(parseUuid('C0030000-00A2-8508-2219-2D8D1D0B4F01')).toBe('c0030000-00a2-8508-2219-2d8d1d0b4f01')
    expect(parseUuid('c0030000')).toBeUndefined()
  })
})
