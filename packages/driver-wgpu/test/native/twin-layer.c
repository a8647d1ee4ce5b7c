/*
 * A Vulkan layer that makes identical GPUs out of one device: each has the PCI address named in EGPU_TWINS
 * (`0000:03:00.0,0000:04:00.0`), a UUID made from it, and counts the memory that this process takes on it.
 *
 * A further physical device is a copy of the loader's own object. The loader only ever reads from it, so the copy is as
 * good as the original, and every call that is not in the way here works on it unseen.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

enum { MOST_TWINS = 4, LOADER_OBJECT_BYTES = 128, MOST_ALLOCATIONS = 65536 };

struct twin {
  unsigned domain, bus, device, function;
  _Atomic uint64_t used;
};
static struct twin twins[MOST_TWINS];
static unsigned twin_count;
static pthread_once_t opened = PTHREAD_ONCE_INIT;
static pthread_mutex_t tables = PTHREAD_MUTEX_INITIALIZER;

static void read_twins(void) {
  const char *list = getenv("EGPU_TWINS");
  while (list != NULL && twin_count < MOST_TWINS) {
    struct twin *twin = &twins[twin_count];
    if (sscanf(list, "%x:%x:%x.%x", &twin->domain, &twin->bus, &twin->device, &twin->function) != 4) break;
    twin_count += 1;
    list = strchr(list, ',');
    if (list != NULL) list += 1;
  }
}

/* Of the next layer; asked for once, at creation: later the loader answers with the first layer's, which is this one. */
#define INSTANCE_CALLS(CALL) \
  CALL(vkDestroyInstance) CALL(vkEnumeratePhysicalDevices) CALL(vkEnumerateDeviceExtensionProperties) \
  CALL(vkGetPhysicalDeviceProperties) CALL(vkGetPhysicalDeviceProperties2) CALL(vkGetPhysicalDeviceMemoryProperties2)
#define DECLARE(name) PFN_##name name;
struct instance {
  VkInstance handle;
  PFN_vkGetInstanceProcAddr get_proc;
  INSTANCE_CALLS(DECLARE)
  VkPhysicalDevice devices[MOST_TWINS];
  struct instance *next;
};
struct device {
  VkDevice handle;
  PFN_vkGetDeviceProcAddr get_proc;
  struct twin *twin;
  struct device *next;
};
static struct instance *instances;
static struct device *devices;
static struct { VkDeviceMemory memory; uint64_t size; } allocations[MOST_ALLOCATIONS];

static void *key_of(const void *handle) { return *(void *const *)handle; }

static struct instance *instance_of(const void *handle) {
  pthread_mutex_lock(&tables);
  struct instance *found = instances;
  while (found != NULL && key_of(found->handle) != key_of(handle)) found = found->next;
  pthread_mutex_unlock(&tables);
  return found;
}

static struct device *device_of(VkDevice handle) {
  pthread_mutex_lock(&tables);
  struct device *found = devices;
  while (found != NULL && found->handle != handle) found = found->next;
  pthread_mutex_unlock(&tables);
  return found;
}

static struct twin *twin_of(VkPhysicalDevice physical) {
  struct instance *instance = instance_of(physical);
  for (unsigned at = 0; at < twin_count; at += 1)
    if (instance->devices[at] == physical) return &twins[at];
  return NULL;
}

#define BELOW(instance, name) ((instance)->name)

static VKAPI_ATTR VkResult VKAPI_CALL enumerate_devices(VkInstance handle, uint32_t *count, VkPhysicalDevice *found) {
  struct instance *instance = instance_of(handle);
  if (instance->devices[0] == NULL) {
    uint32_t one = 1;
    VkPhysicalDevice real;
    VkResult result = BELOW(instance, vkEnumeratePhysicalDevices)(handle, &one, &real);
    if (result < 0 || one == 0) return result;
    instance->devices[0] = real;
    for (unsigned at = 1; at < twin_count; at += 1)
      instance->devices[at] = memcpy(malloc(LOADER_OBJECT_BYTES), real, LOADER_OBJECT_BYTES / 2);
  }
  uint32_t room = found == NULL ? twin_count : *count;
  *count = room < twin_count ? room : twin_count;
  if (found != NULL) memcpy(found, instance->devices, *count * sizeof *found);
  return *count < twin_count ? VK_INCOMPLETE : VK_SUCCESS;
}

static void disguise(VkPhysicalDeviceProperties *properties) {
  properties->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  properties->vendorID = 0x10de;
  properties->deviceID = 0x2335;
  strcpy(properties->deviceName, "Twin GPU");
}

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *properties) {
  BELOW(instance_of(physical), vkGetPhysicalDeviceProperties)(physical, properties);
  disguise(properties);
}

static VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *properties) {
  BELOW(instance_of(physical), vkGetPhysicalDeviceProperties2)(physical, properties);
  disguise(&properties->properties);
  struct twin *twin = twin_of(physical);
  for (VkBaseOutStructure *next = properties->pNext; twin != NULL && next != NULL; next = next->pNext) {
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT) {
      VkPhysicalDevicePCIBusInfoPropertiesEXT *pci = (VkPhysicalDevicePCIBusInfoPropertiesEXT *)next;
      pci->pciDomain = twin->domain;
      pci->pciBus = twin->bus;
      pci->pciDevice = twin->device;
      pci->pciFunction = twin->function;
    } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES) {
      ((VkPhysicalDeviceIDProperties *)next)->deviceUUID[0] = twin->bus;
    } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES) {
      VkPhysicalDeviceDriverProperties *driver = (VkPhysicalDeviceDriverProperties *)next;
      driver->driverID = 0;
      strcpy(driver->driverName, "twin");
      strcpy(driver->driverInfo, "twin");
    }
  }
}

static VKAPI_ATTR void VKAPI_CALL get_memory2(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2 *memory) {
  BELOW(instance_of(physical), vkGetPhysicalDeviceMemoryProperties2)(physical, memory);
  struct twin *twin = twin_of(physical);
  for (VkBaseOutStructure *next = memory->pNext; twin != NULL && next != NULL; next = next->pNext) {
    if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) continue;
    VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = (VkPhysicalDeviceMemoryBudgetPropertiesEXT *)next;
    budget->heapUsage[0] = atomic_load(&twin->used);
    budget->heapBudget[0] = memory->memoryProperties.memoryHeaps[0].size - budget->heapUsage[0];
  }
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate_extensions(VkPhysicalDevice physical, const char *layer,
    uint32_t *count, VkExtensionProperties *found) {
  static const char *const more[] = {"VK_EXT_pci_bus_info", "VK_EXT_memory_budget"};
  struct instance *instance = instance_of(physical);
  PFN_vkEnumerateDeviceExtensionProperties below = BELOW(instance, vkEnumerateDeviceExtensionProperties);
  uint32_t known = 0;
  VkResult result = below(physical, layer, &known, NULL);
  if (result != VK_SUCCESS || layer != NULL) return below(physical, layer, count, found);
  if (found == NULL) {
    *count = known + 2;
    return VK_SUCCESS;
  }
  uint32_t room = *count;
  *count = room < known ? room : known;
  result = below(physical, NULL, count, found);
  for (unsigned at = 0; at < 2 && *count < room; at += 1) {
    memset(&found[*count], 0, sizeof *found);
    strcpy(found[*count].extensionName, more[at]);
    found[*count].specVersion = 1;
    *count += 1;
  }
  return *count < known + 2 ? VK_INCOMPLETE : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice handle, const VkMemoryAllocateInfo *info,
    const VkAllocationCallbacks *allocator, VkDeviceMemory *memory) {
  struct device *device = device_of(handle);
  VkResult result = ((PFN_vkAllocateMemory)device->get_proc(handle, "vkAllocateMemory"))(handle, info, allocator, memory);
  if (result != VK_SUCCESS || device->twin == NULL) return result;
  atomic_fetch_add(&device->twin->used, info->allocationSize);
  pthread_mutex_lock(&tables);
  for (unsigned at = 0; at < MOST_ALLOCATIONS; at += 1) {
    if (allocations[at].memory != VK_NULL_HANDLE) continue;
    allocations[at].memory = *memory;
    allocations[at].size = info->allocationSize;
    break;
  }
  pthread_mutex_unlock(&tables);
  return result;
}

static VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice handle, VkDeviceMemory memory,
    const VkAllocationCallbacks *allocator) {
  struct device *device = device_of(handle);
  pthread_mutex_lock(&tables);
  for (unsigned at = 0; memory != VK_NULL_HANDLE && at < MOST_ALLOCATIONS; at += 1) {
    if (allocations[at].memory != memory) continue;
    allocations[at].memory = VK_NULL_HANDLE;
    if (device->twin != NULL) atomic_fetch_sub(&device->twin->used, allocations[at].size);
    break;
  }
  pthread_mutex_unlock(&tables);
  ((PFN_vkFreeMemory)device->get_proc(handle, "vkFreeMemory"))(handle, memory, allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
    const VkAllocationCallbacks *allocator, VkInstance *handle) {
  pthread_once(&opened, read_twins);
  VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)info->pNext;
  while (!(link->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO && link->function == VK_LAYER_LINK_INFO))
    link = (VkLayerInstanceCreateInfo *)link->pNext;
  PFN_vkGetInstanceProcAddr get_proc = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  VkResult result = ((PFN_vkCreateInstance)get_proc(NULL, "vkCreateInstance"))(info, allocator, handle);
  if (result != VK_SUCCESS) return result;
  struct instance *instance = calloc(1, sizeof *instance);
  instance->handle = *handle;
  instance->get_proc = get_proc;
#define LOOK_UP(name) instance->name = (PFN_##name)get_proc(*handle, #name);
  INSTANCE_CALLS(LOOK_UP)
  pthread_mutex_lock(&tables);
  instance->next = instances;
  instances = instance;
  pthread_mutex_unlock(&tables);
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance handle, const VkAllocationCallbacks *allocator) {
  if (handle == VK_NULL_HANDLE) return;
  struct instance *instance = instance_of(handle);
  pthread_mutex_lock(&tables);
  struct instance **at = &instances;
  while (*at != instance) at = &(*at)->next;
  *at = instance->next;
  pthread_mutex_unlock(&tables);
  BELOW(instance, vkDestroyInstance)(handle, allocator);
  for (unsigned twin = 1; twin < twin_count; twin += 1) free(instance->devices[twin]);
  free(instance);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
    const VkAllocationCallbacks *allocator, VkDevice *handle) {
  VkLayerDeviceCreateInfo *link = (VkLayerDeviceCreateInfo *)info->pNext;
  while (!(link->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO && link->function == VK_LAYER_LINK_INFO))
    link = (VkLayerDeviceCreateInfo *)link->pNext;
  PFN_vkGetInstanceProcAddr get_instance_proc = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  PFN_vkGetDeviceProcAddr get_proc = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  struct instance *instance = instance_of(physical);
  VkResult result =
    ((PFN_vkCreateDevice)get_instance_proc(instance->handle, "vkCreateDevice"))(physical, info, allocator, handle);
  if (result != VK_SUCCESS) return result;
  struct device *device = calloc(1, sizeof *device);
  device->handle = *handle;
  device->get_proc = get_proc;
  device->twin = twin_of(physical);
  pthread_mutex_lock(&tables);
  device->next = devices;
  devices = device;
  pthread_mutex_unlock(&tables);
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice handle, const VkAllocationCallbacks *allocator) {
  if (handle == VK_NULL_HANDLE) return;
  struct device *device = device_of(handle);
  pthread_mutex_lock(&tables);
  struct device **at = &devices;
  while (*at != device) at = &(*at)->next;
  *at = device->next;
  pthread_mutex_unlock(&tables);
  ((PFN_vkDestroyDevice)device->get_proc(handle, "vkDestroyDevice"))(handle, allocator);
  free(device);
}

static PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice handle, const char *name);
static PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance handle, const char *name);

struct hook {
  const char *name;
  PFN_vkVoidFunction function;
};
#define HOOK(name, function) {name, (PFN_vkVoidFunction)(function)}
static const struct hook device_hooks[] = {
  HOOK("vkGetDeviceProcAddr", get_device_proc),
  HOOK("vkDestroyDevice", destroy_device),
  HOOK("vkAllocateMemory", allocate),
  HOOK("vkFreeMemory", free_memory),
};
static const struct hook instance_hooks[] = {
  HOOK("vkGetInstanceProcAddr", get_instance_proc),
  HOOK("vkCreateInstance", create_instance),
  HOOK("vkDestroyInstance", destroy_instance),
  HOOK("vkEnumeratePhysicalDevices", enumerate_devices),
  HOOK("vkEnumerateDeviceExtensionProperties", enumerate_extensions),
  HOOK("vkCreateDevice", create_device),
  HOOK("vkGetPhysicalDeviceProperties", get_properties),
  HOOK("vkGetPhysicalDeviceProperties2", get_properties2),
  HOOK("vkGetPhysicalDeviceProperties2KHR", get_properties2),
  HOOK("vkGetPhysicalDeviceMemoryProperties2", get_memory2),
  HOOK("vkGetPhysicalDeviceMemoryProperties2KHR", get_memory2),
};
static PFN_vkVoidFunction find(const struct hook *hooks, size_t count, const char *name) {
  for (size_t at = 0; at < count; at += 1)
    if (strcmp(hooks[at].name, name) == 0) return hooks[at].function;
  return NULL;
}
#define FIND(hooks, name) find(hooks, sizeof hooks / sizeof *hooks, name)

static PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice handle, const char *name) {
  PFN_vkVoidFunction ours = FIND(device_hooks, name);
  return ours != NULL ? ours : device_of(handle)->get_proc(handle, name);
}

static PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance handle, const char *name) {
  PFN_vkVoidFunction ours = FIND(instance_hooks, name);
  if (ours == NULL) ours = FIND(device_hooks, name);
  if (ours != NULL) return ours;
  struct instance *instance = handle == VK_NULL_HANDLE ? NULL : instance_of(handle);
  return instance == NULL ? NULL : instance->get_proc(handle, name);
}

VK_LAYER_EXPORT VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version) {
  if (version->loaderLayerInterfaceVersion > 2) version->loaderLayerInterfaceVersion = 2;
  version->pfnGetInstanceProcAddr = get_instance_proc;
  version->pfnGetDeviceProcAddr = get_device_proc;
  version->pfnGetPhysicalDeviceProcAddr = NULL;
  return VK_SUCCESS;
}
