import { functionsOf } from '../topology/functions.ts'
import type { PciFunction, Topology } from '../topology/types.ts'

/** A function of the card, as far as taking it away goes. */
export interface CardFunction {
  readonly address: string
  readonly kind: 'gpu' | 'sound' | 'usb' | 'ucsi' | 'other'
  readonly driver?: string | undefined
}

export const functionTitles: Readonly<Record<CardFunction['kind'], string>> = {
  gpu: 'GPU',
  sound: "GPU's sound function",
  usb: "GPU's USB controller",
  ucsi: "GPU's USB-C controller",
  other: 'other function',
}

/** Sound, USB and UCSI hang on the GPU's power and go first, the GPU itself last. */
const order: readonly CardFunction['kind'][] = ['sound', 'usb', 'ucsi', 'other', 'gpu']

/** The functions of a card in the order in which they are taken away. */
export function cardFunctionsOf(topology: Pick<Topology, 'pci'>, gpu: PciFunction): readonly CardFunction[] {
  return functionsOf(topology, gpu.address)
    .map((one): CardFunction => ({ address: one.address, kind: kindOf(one, gpu), driver: one.driver }))
    .sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind))
}

function kindOf(one: PciFunction, gpu: PciFunction): CardFunction['kind'] {
  if (one.address === gpu.address) return 'gpu'
  const subclass = (one.pciClass ?? 0) >> 8
  if (subclass === 0x0403) return 'sound'
  if (subclass === 0x0c03) return 'usb'
  // Turing cards have a USB-C port controller, class 0c80.
  return subclass === 0x0c80 ? 'ucsi' : 'other'
}
