import { UdevadmText } from '../../src/watch/udevadm-text.ts'
import { parseKernelUevent, parseUdevMessage } from '../../src/watch/uevent.ts'
import { kernelDatagram, udevMessage, udevadmBlock } from '../watch/messages.ts'
import { random } from '../watch/random.ts'

const gpu = {
  ACTION: 'add',
  DEVPATH: '/devices/pci0000:00/0000:00:07.0/0000:02:00.0/0000:03:00.0/0000:04:00.0',
  SUBSYSTEM: 'pci',
  PCI_CLASS: '30000',
  PCI_ID: '10DE:2B85',
  PCI_SLOT_NAME: '0000:04:00.0',
  SEQNUM: '4711',
}

/** Parses mutated messages of every kind; how many were taken for events. Throws when one of those is not well formed. */
export function fuzzMessages(count: number, seed: number): number {
  const { below, mutate } = random(seed)
  const seeds = [kernelDatagram(gpu), udevMessage(gpu), new TextEncoder().encode(udevadmBlock(gpu))]
  const text = new UdevadmText()
  const decoder = new TextDecoder()
  let accepted = 0
  for (let round = 0; round < count; round++) {
    const bytes = mutate(seeds[below(seeds.length)] as Uint8Array)
    const kernel = parseKernelUevent(decoder.decode(bytes))
    const udev = parseUdevMessage(bytes)
    const printed = text.push(Buffer.from(bytes).toString('latin1'))
    for (const event of [kernel, udev, ...printed]) {
      if (event === undefined) continue
      accepted++
      if (!/^[a-z]+$/.test(event.action) || !event.devpath.startsWith('/')) throw new Error(`accepted ${String(bytes)}`)
      if (event.seqnum !== undefined && !Number.isSafeInteger(event.seqnum)) throw new Error('unsafe number')
    }
  }
  return accepted
}
