// The one file of this package that loads native code, and plain JavaScript, because worker threads and child processes
// of Node 20 cannot load TypeScript. Importing it loads koffi; `listPhysicalDevices` loads Vulkan.
import koffi from 'koffi'

const memory = koffi.load(process.platform === 'win32' ? 'ucrtbase.dll' : null)

/** @type {(destination: bigint, source: bigint, bytes: number) => void} */
export const copyMemory = memory.func('void *memcpy(uintptr_t destination, uintptr_t source, size_t bytes)')

/** Where a view's bytes are. True until its buffer is detached. @param {ArrayBufferView} view */
export const addressOf = (view) => koffi.address(view)

// Values and layouts of vulkan_core.h, on 64-bit machines.
const structureType = {
  instanceCreateInfo: 1,
  physicalDeviceProperties2: 1_000_059_001,
  physicalDeviceMemoryProperties2: 1_000_059_006,
  physicalDeviceIdProperties: 1_000_071_004,
  physicalDevicePciBusInfo: 1_000_212_000,
  physicalDeviceMemoryBudget: 1_000_237_000,
}
const types = ['other', 'integrated', 'discrete', 'virtual', 'cpu']
const libraries = { win32: 'vulkan-1.dll', darwin: 'libvulkan.1.dylib' }

/**
 * Every physical device that Vulkan shows in this process and this environment, in its order: with what Dawn keeps to
 * itself, the PCI address and the UUID. It loads every installed driver, so it is for child processes.
 */
export function listPhysicalDevices() {
  const vulkan = koffi.load(libraries[/** @type {'win32'} */ (process.platform)] ?? 'libvulkan.so.1')
  /** @param {string} name @param {number} count */
  const bind = (name, count) =>
    vulkan.func(
      name,
      'int',
      Array.from({ length: count }, () => 'void *'),
    )
  const createInstance = bind('vkCreateInstance', 3)
  const destroyInstance = bind('vkDestroyInstance', 2)
  const enumerate = bind('vkEnumeratePhysicalDevices', 3)
  const extensionsOf = bind('vkEnumerateDeviceExtensionProperties', 4)
  const getProperties = bind('vkGetPhysicalDeviceProperties2', 2)
  const getMemory = bind('vkGetPhysicalDeviceMemoryProperties2', 2)

  const application = struct(48)
  application.view.setUint32(44, (1 << 22) | (1 << 12), true) // Vulkan 1.1
  const create = struct(64, structureType.instanceCreateInfo)
  link(create, 24, application)
  const handle = new BigUint64Array(1)
  check('vkCreateInstance', createInstance(create.bytes, null, handle))
  const instance = handle[0]
  try {
    const count = new Uint32Array(1)
    check('vkEnumeratePhysicalDevices', enumerate(instance, count, null))
    const devices = new BigUint64Array(count[0] ?? 0)
    if (devices.length === 0) return []
    check('vkEnumeratePhysicalDevices', enumerate(instance, count, devices))
    return [...devices.subarray(0, count[0])].map((device) => {
      const extensions = extensionNames(device)
      const id = struct(64, structureType.physicalDeviceIdProperties)
      const pci = struct(32, structureType.physicalDevicePciBusInfo)
      if (extensions.has('VK_EXT_pci_bus_info')) link(id, 8, pci)
      const properties = struct(840, structureType.physicalDeviceProperties2)
      link(properties, 8, id)
      getProperties(device, properties.bytes)

      const budget = struct(272, structureType.physicalDeviceMemoryBudget)
      const memory = struct(536, structureType.physicalDeviceMemoryProperties2)
      const hasBudget = extensions.has('VK_EXT_memory_budget')
      if (hasBudget) link(memory, 8, budget)
      getMemory(device, memory.bytes)
      const heaps = Array.from({ length: memory.view.getUint32(276, true) }, (_, heap) => heap)
      const local = heaps.filter((heap) => (memory.view.getUint32(280 + heap * 16 + 8, true) & 1) !== 0)
      /** @param {DataView} view @param {number} begin @param {number} stride */
      const sum = (view, begin, stride) =>
        local.reduce((bytes, heap) => bytes + Number(view.getBigUint64(begin + heap * stride, true)), 0)

      const uint = (/** @type {number} */ at) => properties.view.getUint32(16 + at, true)
      return {
        name: text(properties.bytes, 36, 256),
        vendorId: uint(8),
        deviceId: uint(12),
        type: types[uint(16)] ?? 'other',
        uuid: uuid(id.bytes.subarray(16, 32)),
        pciAddress: extensions.has('VK_EXT_pci_bus_info') ? pciAddress(pci.view) : undefined,
        memoryBytes: sum(memory.view, 280, 16),
        budgetBytes: hasBudget ? sum(budget.view, 16, 8) : undefined,
        usedBytes: hasBudget ? sum(budget.view, 144, 8) : undefined,
      }
    })
  } finally {
    destroyInstance(instance, null)
  }

  /** @param {bigint} device */
  function extensionNames(device) {
    const count = new Uint32Array(1)
    check('vkEnumerateDeviceExtensionProperties', extensionsOf(device, null, count, null))
    const size = 260
    const properties = new Uint8Array(Math.max(1, count[0] ?? 0) * size)
    check('vkEnumerateDeviceExtensionProperties', extensionsOf(device, null, count, properties))
    return new Set(Array.from({ length: count[0] ?? 0 }, (_, at) => text(properties, at * size, 256)))
  }
}

/** A zeroed structure whose first word is its type. @param {number} size */
function struct(size, type = 0) {
  const bytes = new Uint8Array(size)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, type, true)
  return { bytes, view }
}

/** @typedef {ReturnType<typeof struct>} Struct */
/** @type {WeakMap<Uint8Array, Uint8Array>} */
const linked = new WeakMap()

/** Puts a pointer to `target` at `offset`; it lives as long as what points to it. @param {Struct} from @param {number} offset @param {Struct} target */
function link(from, offset, target) {
  from.view.setBigUint64(offset, koffi.address(target.bytes), true)
  linked.set(from.bytes, target.bytes)
}

/** `VK_INCOMPLETE` (5) is fine: a device went or came between two calls. @param {string} call @param {number} result */
function check(call, result) {
  if (result !== 0 && result !== 5) throw new Error(`${call} answered ${result}`)
}

/** @param {Uint8Array} bytes @param {number} begin @param {number} most */
function text(bytes, begin, most) {
  const part = bytes.subarray(begin, begin + most)
  const end = part.indexOf(0)
  return new TextDecoder().decode(end < 0 ? part : part.subarray(0, end))
}

/** @param {Uint8Array} bytes */
function uuid(bytes) {
  return Buffer.from(bytes)
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

/** @param {DataView} view */
function pciAddress(view) {
  const hex = (/** @type {number} */ at, /** @type {number} */ digits) =>
    view.getUint32(at, true).toString(16).padStart(digits, '0')
  return `${hex(16, 4)}:${hex(20, 2)}:${hex(24, 2)}.${view.getUint32(28, true)}`
}
