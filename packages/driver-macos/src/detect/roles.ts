import type { RegistryNode, RoleRequest } from '../registry/picture.ts'
import { hasPciClass, PciBaseClass } from './pci.ts'

/** Who drives a GPU shows below it. */
const belowGpu: readonly RoleRequest[] = [
  { role: 'accelerator', classes: ['IOAccelerator', 'AGXAccelerator'], keys: ['CFBundleIdentifier', 'model'] },
  { role: 'user-service', classes: ['IOUserService'], keys: ['CFBundleIdentifier', 'IOUserServerName'] },
  { role: 'framebuffer', classes: ['IOFramebuffer'], keys: [] },
  { role: 'display', classes: ['IODisplayConnect', 'IODisplay'], keys: [] },
]

const usesGpuBelow = (node: RegistryNode): boolean =>
  hasPciClass(node, PciBaseClass.Display) || hasPciClass(node, PciBaseClass.Accelerator)

/** Everything the detector looks at. Thunderbolt classes carry the chip in their name, so only base classes count. */
export const detectorRoles: readonly RoleRequest[] = [
  { role: 'platform', classes: ['IOPlatformExpertDevice'], keys: ['model'] },
  {
    role: 'pci',
    classes: ['IOPCIDevice'],
    keys: [
      'vendor-id',
      'device-id',
      'class-code',
      'subsystem-vendor-id',
      'subsystem-id',
      'model',
      'pcidebug',
      'built-in',
      'AAPL,slot-name',
      'VRAM,totalMB',
      'CFBundleIdentifier',
      'IOPCITunnelled',
      'IOPCIHotPlug',
      'IOPCIDeviceDeadOnRestore',
      'IOPCIExpressLinkStatus',
      'IOPCIExpressLinkCapabilities',
      'IOPCIResourced',
      'IODeviceMemory',
      'assigned-addresses',
      'Thunderbolt Entry ID',
      'Tunnel Endpoint GUID',
    ],
    below: { when: usesGpuBelow, roles: belowGpu },
  },
  { role: 'bridge', classes: ['IOPCIBridge'], keys: ['Thunderbolt Entry ID', 'Tunnel Endpoint GUID'] },
  {
    role: 'switch',
    classes: ['IOThunderboltSwitch'],
    keys: [
      'UID',
      'Depth',
      'Device Vendor Name',
      'Device Model Name',
      'Device Vendor ID',
      'Device Model ID',
      'ROM Version',
      'EEPROM Revision',
      'Firmware Version',
      'Thunderbolt Version',
    ],
  },
  {
    role: 'port',
    classes: ['IOThunderboltPort'],
    keys: [
      'Adapter Type',
      'Description',
      'Port Number',
      'Socket ID',
      'Current Link Speed',
      'Current Link Width',
      'Supported Link Speed',
      'PCI Entry ID',
      'PCI Path',
    ],
  },
  { role: 'controller', classes: ['IOThunderboltController'], keys: [] },
  { role: 'accelerator', classes: ['IOAccelerator', 'AGXAccelerator'], keys: ['CFBundleIdentifier', 'model'] },
  {
    role: 'usb',
    classes: ['IOUSBHostDevice'],
    keys: ['idVendor', 'idProduct', 'USB Product Name'],
    below: { when: () => true, roles: [{ role: 'media', classes: ['IOMedia'], keys: [] }] },
  },
]

/** Classes whose coming and going changes the picture. */
export const watchedClasses: readonly string[] = [
  'IOPCIDevice',
  'IOThunderboltSwitch',
  'IOAccelerator',
  'IOUserService',
  'IOUSBHostDevice',
]
