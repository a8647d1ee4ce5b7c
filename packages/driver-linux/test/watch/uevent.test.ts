import { describe, expect, it } from 'vitest'
import { UdevadmText } from '../../src/watch/udevadm-text.ts'
import { isSynthetic, parseKernelUevent as parseKernelText, parseUdevMessage } from '../../src/watch/uevent.ts'
import type { Uevent } from '../../src/watch/uevent.ts'
import { kernelDatagram, udevMessage, udevadmBlock } from './messages.ts'
import { fuzzMessages } from '../fuzz/messages.ts'

function parseKernelUevent(datagram: Uint8Array): Uevent | undefined {
  return parseKernelText(new TextDecoder().decode(datagram))
}

const gpu = {
  ACTION: 'add',
  DEVPATH: '/devices/pci0000:00/0000:00:07.0/0000:02:00.0/0000:03:00.0/0000:04:00.0',
  SUBSYSTEM: 'pci',
  PCI_CLASS: '30000',
  PCI_ID: '10DE:2B85',
  PCI_SLOT_NAME: '0000:04:00.0',
  SEQNUM: '4711',
}

describe('kernel datagrams', () => {
  it('reads action, path, subsystem, number and every property', () => {
    const event = parseKernelUevent(kernelDatagram(gpu))
    expect(event).toMatchObject({ action: 'add', devpath: gpu.DEVPATH, subsystem: 'pci', seqnum: 4711 })
    expect(event?.properties.get('PCI_ID')).toBe('10DE:2B85')
  })

  it('refuses a header that contradicts the properties', () => {
    const forged = new TextEncoder().encode(`remove@${gpu.DEVPATH}\0ACTION=add\0DEVPATH=${gpu.DEVPATH}\0SEQNUM=1\0`)
    expect(parseKernelUevent(forged)).toBeUndefined()
  })

  it.each([
    ['nothing', ''],
    ['no properties', 'add@/devices/x\0'],
    ['no path', 'add@\0ACTION=add\0DEVPATH=\0'],
    ['an action that is no word', 'a d@/x\0ACTION=a d\0DEVPATH=/x\0'],
    ['an udev message', 'libudev\0'],
  ])('refuses %s', (_, datagram) => {
    expect(parseKernelUevent(new TextEncoder().encode(datagram))).toBeUndefined()
  })

  it('keeps values with equals signs and properties named like object members', () => {
    const event = parseKernelUevent(kernelDatagram({ ...gpu, TUNNEL_DETAILS: 'a=b=c', ['__proto__']: 'x' }))
    expect(event?.properties.get('TUNNEL_DETAILS')).toBe('a=b=c')
    expect(event?.properties.get('__proto__')).toBe('x')
  })

  it('leaves a number it cannot trust undefined', () => {
    expect(parseKernelUevent(kernelDatagram({ ...gpu, SEQNUM: '18446744073709551615' }))?.seqnum).toBeUndefined()
    expect(parseKernelUevent(kernelDatagram({ ...gpu, SEQNUM: '-1' }))?.seqnum).toBeUndefined()
  })

  it('tells synthetic events from real ones', () => {
    const real = parseKernelUevent(kernelDatagram(gpu))
    const written = parseKernelUevent(kernelDatagram({ ...gpu, SYNTH_UUID: '0' }))
    expect(real && isSynthetic(real)).toBe(false)
    expect(written && isSynthetic(written)).toBe(true)
  })
})

describe('udev messages', () => {
  it('reads the properties behind the header', () => {
    const event = parseUdevMessage(udevMessage({ ...gpu, ID_PATH: 'pci-0000:04:00.0' }))
    expect(event).toMatchObject({ action: 'add', subsystem: 'pci', seqnum: 4711 })
    expect(event?.properties.get('ID_PATH')).toBe('pci-0000:04:00.0')
  })

  it('refuses a wrong magic number, offsets outside the message, and kernel datagrams', () => {
    const magic = udevMessage(gpu)
    magic[8] = 0
    const offset = udevMessage(gpu)
    new DataView(offset.buffer).setUint32(16, 0xffff_fff0, true)
    const length = udevMessage(gpu)
    new DataView(length.buffer).setUint32(20, 0x7fff_ffff, true)
    for (const message of [magic, offset, length, kernelDatagram(gpu)])
      expect(parseUdevMessage(message)).toBeUndefined()
  })
})

describe('udevadm monitor', () => {
  it('reads blocks however the output is cut', () => {
    const output = `monitor will print the received events for:\nKERNEL - the kernel uevent\n\n${udevadmBlock(gpu)}${udevadmBlock({ ...gpu, ACTION: 'remove', SEQNUM: '4712' })}`
    for (const size of [1, 2, 7, 64, 10_000]) {
      const text = new UdevadmText()
      const events = []
      for (let at = 0; at < output.length; at += size) events.push(...text.push(output.slice(at, at + size)))
      expect(events.map(({ action, seqnum }) => [action, seqnum])).toEqual([
        ['add', 4711],
        ['remove', 4712],
      ])
    }
  })

  it('forgets an endless line and goes on after it', () => {
    const text = new UdevadmText()
    for (let piece = 0; piece < 100; piece++) expect(text.push('x'.repeat(10_000))).toEqual([])
    expect(text.push(`\n${udevadmBlock(gpu)}`)).toHaveLength(1)
  })
})

it('survives 120,000 mutated messages, and what it accepts is well formed', () => {
  expect(fuzzMessages(120_000, 20_261_130)).toBeGreaterThan(1000)
})
