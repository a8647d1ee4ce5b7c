/**
 * Every attribute the reading side may open, and when. Nothing else can be named: `Sysfs.read` takes only these words,
 * and a test records every path that is opened over all recorded machines.
 *
 * - `passive` attributes print what the kernel holds in memory. They cost no bus access and wake nothing.
 * - `awake` attributes reach into the device: `current_link_*`, `resource*_resize` take a runtime PM reference and so
 *   wake it, `max_link_*` (before Linux 6.13, width still in 6.19) and `serial_number` read configuration space, which
 *   answers all-ones while the device is in D3cold (drivers/pci/pci-sysfs.c). They are read only while
 *   `power/runtime_status` says `active`, or when a caller asked for them.
 *
 * Configuration space itself (`config`) and monitor data (`edid`) are never opened.
 */
export const attributes = {
  // every device
  uevent: 'passive',

  // PCI functions (Documentation/ABI/testing/sysfs-bus-pci)
  vendor: 'passive',
  device: 'passive',
  class: 'passive',
  subsystem_vendor: 'passive',
  subsystem_device: 'passive',
  removable: 'passive',
  boot_vga: 'passive',
  resource: 'passive',
  power_state: 'passive',
  'power/runtime_status': 'passive',
  'power/control': 'passive',
  'firmware_node/path': 'passive',
  mem_info_vram_total: 'passive',
  current_link_speed: 'awake',
  current_link_width: 'awake',
  max_link_speed: 'awake',
  max_link_width: 'awake',
  serial_number: 'awake',
  resource0_resize: 'awake',
  resource1_resize: 'awake',

  // hot-plug slots: the PCI address a slot covers
  address: 'passive',

  // Thunderbolt and USB4 (Documentation/ABI/testing/sysfs-bus-thunderbolt)
  authorized: 'passive',
  boot: 'passive',
  device_name: 'passive',
  vendor_name: 'passive',
  generation: 'passive',
  rx_speed: 'passive',
  rx_lanes: 'passive',
  tx_speed: 'passive',
  tx_lanes: 'passive',
  unique_id: 'passive',
  nvm_version: 'passive',
  security: 'passive',
  iommu_dma_protection: 'passive',
  deauthorization: 'passive',
  maxhopid: 'passive',
  link: 'passive',

  // DRM connectors; reading `status` reports the last probe, it does not start one
  status: 'passive',

  // Type-C and USB Power Delivery
  data_role: 'passive',
  power_role: 'passive',
  power_operation_mode: 'passive',
  svid: 'passive',
  active: 'passive',
  voltage: 'passive',
  maximum_current: 'passive',
  maximum_power: 'passive',

  // firmware attributes of ASUS machines with an XG Mobile port
  'egpu_connected/current_value': 'passive',
  'egpu_enable/current_value': 'passive',
  egpu_connected: 'passive',
  egpu_enable: 'passive',

  // DMI and /proc/sys/kernel
  chassis_type: 'passive',
  sys_vendor: 'passive',
  product_name: 'passive',
  osrelease: 'passive',
} as const

export type Attribute = keyof typeof attributes
