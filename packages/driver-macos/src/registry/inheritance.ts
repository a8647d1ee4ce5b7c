/**
 * Superclasses of the classes the detector asks for, for dumps taken without `ioreg -i`. Families whose members carry
 * the chip in their name (`IOThunderboltSwitchType7`, `IOThunderboltSwitchIntelJHL9580`) go by prefix.
 */
const families: readonly (readonly [prefix: string, superclass: string])[] = [
  ['AppleThunderboltNHIType', 'AppleThunderboltNHI'],
  ['AGXAccelerator', 'IOAccelerator'],
  ['AMDRadeon', 'IOAccelerator'],
  ['AMDCedar', 'IOAccelerator'],
  ['IntelAccelerator', 'IOAccelerator'],
  ['NVAccelerator', 'IOAccelerator'],
  ['nvAccelerator', 'IOAccelerator'],
  ['AMDFramebuffer', 'IOFramebuffer'],
  ['AppleIntelFramebuffer', 'IOFramebuffer'],
  ['NVDA', 'IOFramebuffer'],
  ['AppleUSBHostDevice', 'IOUSBHostDevice'],
  ['IOThunderboltSwitch', 'IOThunderboltSwitch'],
  ['IOThunderboltController', 'IOThunderboltController'],
]

const superclasses: ReadonlyMap<string, string> = new Map([
  ['IOPCI2PCIBridge', 'IOPCIBridge'],
  ['IOUSBDevice', 'IOUSBHostDevice'],
  ['IOEthernetInterface', 'IONetworkInterface'],
  ['IONDRVFramebuffer', 'IOFramebuffer'],
  ['AppleDisplay', 'IODisplay'],
])

/** Whether a class is, or derives from, another, as far as the names tell. */
export function conformsByName(className: string, ancestor: string): boolean {
  if (className === ancestor || ancestor === 'IOService') return true
  if (superclasses.get(className) === ancestor) return true
  return families.some(([prefix, superclass]) => superclass === ancestor && className.startsWith(prefix))
}
