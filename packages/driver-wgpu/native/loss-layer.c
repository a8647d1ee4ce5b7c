/*
 * A Vulkan layer that takes a device away: above any Vulkan driver it answers VK_ERROR_DEVICE_LOST from a chosen call
 * on, hides the device from later look-ups, and brings it back. What runs above it meets a real loss at the driver
 * boundary, without a GPU and without a cable.
 *
 * It is steered through a file of fifteen 32-bit words (EGPU_LOSS_CONTROL) that both sides share: the layer maps it,
 * the test reads and writes it. `enum word` is the layout; src/testing/loss-control.ts has the same one.
 *
 * A lost VkDevice stays lost until it is destroyed, as the Vulkan specification has it (chapter "Lost Device"). Before
 * it answers so for the first time, work that was accepted earlier is let to finish: a device that is really gone runs
 * nothing either, whereas the driver below would go on writing to memory that its user frees on hearing of the loss.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

enum call { CALL_SUBMIT, CALL_FENCE, CALL_MAP, CALLS };
enum word {
  WORD_LOST,         /* 1: every device is lost, and so is every device created while it stays 1 */
  WORD_HIDDEN,       /* 1: there are no physical devices */
  WORD_HIDE_ON_LOSS, /* 1: an armed loss sets WORD_HIDDEN as well */
  WORD_LOSSES,       /* devices lost so far */
  WORD_LIVE_DEVICES,
  WORD_COUNT,                    /* calls of each kind so far */
  WORD_ARMED = WORD_COUNT + CALLS, /* at which call of each kind the device is lost; 0: never */
  WORD_TOLD = WORD_ARMED + CALLS, /* calls that were answered with VK_ERROR_DEVICE_LOST, of each kind */
  WORD_POISON = WORD_TOLD + CALLS, /* a dispatch of so many workgroups in x takes its device down; 0: none does */
  WORDS
};

static _Atomic uint32_t *control;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

static void open_control(void) {
  static _Atomic uint32_t unused[WORDS];
  control = unused;
  const char *path = getenv("EGPU_LOSS_CONTROL");
  if (path == NULL) return;
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void *words = mmap(NULL, sizeof unused, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (words != MAP_FAILED) control = words;
}

struct instance {
  void *key;
  VkInstance handle;
  PFN_vkGetInstanceProcAddr get_proc;
  PFN_vkDestroyInstance destroy;
  PFN_vkEnumeratePhysicalDevices enumerate;
  PFN_vkEnumeratePhysicalDeviceGroups enumerate_groups;
  PFN_vkGetPhysicalDeviceProperties properties;
  PFN_vkGetPhysicalDeviceProperties2 properties2;
  struct instance *next;
};

struct device {
  void *key;
  VkDevice handle;
  _Atomic int dead;
  _Atomic int poisoned; /* dies at its next submit */
  PFN_vkGetDeviceProcAddr get_proc;
  PFN_vkDestroyDevice destroy;
  PFN_vkQueueSubmit submit;
  PFN_vkQueueSubmit2 submit2;
  PFN_vkWaitForFences wait_fences;
  PFN_vkGetFenceStatus fence_status;
  PFN_vkMapMemory map;
  PFN_vkCmdDispatch dispatch;
  PFN_vkQueueWaitIdle queue_idle;
  PFN_vkDeviceWaitIdle device_idle;
  struct device *next;
};

static pthread_mutex_t tables = PTHREAD_MUTEX_INITIALIZER;
static struct instance *instances;
static struct device *devices;

/* A dispatchable handle begins with the loader's dispatch table, which a device shares with its queues and an instance
 * with its physical devices (loader interface, "Loader and Layer Interface"). */
static void *key_of(const void *handle) { return *(void *const *)handle; }

static struct instance *instance_of(const void *handle) {
  pthread_mutex_lock(&tables);
  struct instance *found = instances;
  while (found != NULL && found->key != key_of(handle)) found = found->next;
  pthread_mutex_unlock(&tables);
  return found;
}

static struct device *device_of(const void *handle) {
  pthread_mutex_lock(&tables);
  struct device *found = devices;
  while (found != NULL && found->key != key_of(handle)) found = found->next;
  pthread_mutex_unlock(&tables);
  return found;
}

/* Counts the call, and says whether the device is gone by now. */
static int is_lost(struct device *device, enum call call) {
  uint32_t count = atomic_fetch_add(&control[WORD_COUNT + call], 1) + 1;
  uint32_t armed = atomic_load(&control[WORD_ARMED + call]);
  int dies = atomic_load(&control[WORD_LOST]) != 0 || (call == CALL_SUBMIT && atomic_load(&device->poisoned));
  if (armed != 0 && count >= armed) {
    atomic_store(&control[WORD_ARMED + call], 0);
    if (atomic_load(&control[WORD_HIDE_ON_LOSS]) != 0) atomic_store(&control[WORD_HIDDEN], 1);
    dies = 1;
  }
  if (dies && atomic_exchange(&device->dead, 1) == 0) {
    device->device_idle(device->handle);
    atomic_fetch_add(&control[WORD_LOSSES], 1);
  }
  if (!atomic_load(&device->dead)) return 0;
  atomic_fetch_add(&control[WORD_TOLD + call], 1);
  return 1;
}

static VKAPI_ATTR VkResult VKAPI_CALL queue_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos,
    VkFence fence) {
  struct device *device = device_of(queue);
  return is_lost(device, CALL_SUBMIT) ? VK_ERROR_DEVICE_LOST : device->submit(queue, count, infos, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL queue_submit2(VkQueue queue, uint32_t count,
    const VkSubmitInfo2 *infos, VkFence fence) {
  struct device *device = device_of(queue);
  return is_lost(device, CALL_SUBMIT) ? VK_ERROR_DEVICE_LOST : device->submit2(queue, count, infos, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_for_fences(VkDevice handle, uint32_t count, const VkFence *fences,
    VkBool32 all, uint64_t timeout) {
  struct device *device = device_of(handle);
  return is_lost(device, CALL_FENCE) ? VK_ERROR_DEVICE_LOST : device->wait_fences(handle, count, fences, all, timeout);
}

static VKAPI_ATTR VkResult VKAPI_CALL get_fence_status(VkDevice handle, VkFence fence) {
  struct device *device = device_of(handle);
  return is_lost(device, CALL_FENCE) ? VK_ERROR_DEVICE_LOST : device->fence_status(handle, fence);
}

static VKAPI_ATTR void VKAPI_CALL cmd_dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
  struct device *device = device_of(commands);
  uint32_t poison = atomic_load(&control[WORD_POISON]);
  if (poison != 0 && x == poison) atomic_store(&device->poisoned, 1);
  device->dispatch(commands, x, y, z);
}

/* vkMapMemory may not answer VK_ERROR_DEVICE_LOST; a real driver says that the map failed. */
static VKAPI_ATTR VkResult VKAPI_CALL map_memory(VkDevice handle, VkDeviceMemory memory, VkDeviceSize offset,
    VkDeviceSize size, VkMemoryMapFlags flags, void **data) {
  struct device *device = device_of(handle);
  return is_lost(device, CALL_MAP) ? VK_ERROR_MEMORY_MAP_FAILED : device->map(handle, memory, offset, size, flags, data);
}

/* Also waits on a lost device, so that nothing runs on below; then tells of the loss. */
static VKAPI_ATTR VkResult VKAPI_CALL queue_wait_idle(VkQueue queue) {
  struct device *device = device_of(queue);
  VkResult result = device->queue_idle(queue);
  return atomic_load(&device->dead) ? VK_ERROR_DEVICE_LOST : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL device_wait_idle(VkDevice handle) {
  struct device *device = device_of(handle);
  VkResult result = device->device_idle(handle);
  return atomic_load(&device->dead) ? VK_ERROR_DEVICE_LOST : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate_devices(VkInstance handle, uint32_t *count,
    VkPhysicalDevice *found) {
  if (atomic_load(&control[WORD_HIDDEN]) == 0) return instance_of(handle)->enumerate(handle, count, found);
  *count = 0;
  return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate_groups(VkInstance handle, uint32_t *count,
    VkPhysicalDeviceGroupProperties *found) {
  if (atomic_load(&control[WORD_HIDDEN]) == 0) return instance_of(handle)->enumerate_groups(handle, count, found);
  *count = 0;
  return VK_SUCCESS;
}

/* With EGPU_LOSS_DISGUISE=name the software device passes for a graphics card of that name, which nobody made. */
static void disguise(VkPhysicalDeviceProperties *properties) {
  const char *name = getenv("EGPU_LOSS_DISGUISE");
  if (name == NULL) return;
  properties->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  properties->vendorID = 0xfffe;
  properties->deviceID = 1;
  strncpy(properties->deviceName, name, VK_MAX_PHYSICAL_DEVICE_NAME_SIZE - 1);
  properties->deviceName[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE - 1] = 0;
}

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *properties) {
  instance_of(physical)->properties(physical, properties);
  disguise(properties);
}

static VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *properties) {
  instance_of(physical)->properties2(physical, properties);
  disguise(&properties->properties);
  const char *name = getenv("EGPU_LOSS_DISGUISE");
  if (name == NULL) return;
  for (VkBaseOutStructure *next = properties->pNext; next != NULL; next = next->pNext) {
    if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES) continue;
    VkPhysicalDeviceDriverProperties *driver = (VkPhysicalDeviceDriverProperties *)next;
    driver->driverID = 0;
    strncpy(driver->driverName, "disguised", VK_MAX_DRIVER_NAME_SIZE);
    strncpy(driver->driverInfo, "disguised", VK_MAX_DRIVER_INFO_SIZE);
  }
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
    const VkAllocationCallbacks *allocator, VkInstance *handle) {
  pthread_once(&opened, open_control);
  VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)info->pNext;
  while (link != NULL && !(link->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO && link->function == VK_LAYER_LINK_INFO))
    link = (VkLayerInstanceCreateInfo *)link->pNext;
  if (link == NULL) return VK_ERROR_INITIALIZATION_FAILED;
  PFN_vkGetInstanceProcAddr get_proc = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;

  VkResult result = ((PFN_vkCreateInstance)get_proc(NULL, "vkCreateInstance"))(info, allocator, handle);
  if (result != VK_SUCCESS) return result;
  struct instance *instance = calloc(1, sizeof *instance);
  if (instance == NULL) return VK_ERROR_OUT_OF_HOST_MEMORY;
  instance->key = key_of(*handle);
  instance->handle = *handle;
  instance->get_proc = get_proc;
  instance->destroy = (PFN_vkDestroyInstance)get_proc(*handle, "vkDestroyInstance");
  instance->enumerate = (PFN_vkEnumeratePhysicalDevices)get_proc(*handle, "vkEnumeratePhysicalDevices");
  instance->enumerate_groups = (PFN_vkEnumeratePhysicalDeviceGroups)get_proc(*handle, "vkEnumeratePhysicalDeviceGroups");
  instance->properties = (PFN_vkGetPhysicalDeviceProperties)get_proc(*handle, "vkGetPhysicalDeviceProperties");
  instance->properties2 = (PFN_vkGetPhysicalDeviceProperties2)get_proc(*handle, "vkGetPhysicalDeviceProperties2");
  if (instance->properties2 == NULL)
    instance->properties2 =
      (PFN_vkGetPhysicalDeviceProperties2)get_proc(*handle, "vkGetPhysicalDeviceProperties2KHR");
  pthread_mutex_lock(&tables);
  instance->next = instances;
  instances = instance;
  pthread_mutex_unlock(&tables);
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance handle,
    const VkAllocationCallbacks *allocator) {
  if (handle == VK_NULL_HANDLE) return;
  void *key = key_of(handle);
  pthread_mutex_lock(&tables);
  struct instance **at = &instances;
  while (*at != NULL && (*at)->key != key) at = &(*at)->next;
  struct instance *instance = *at;
  if (instance != NULL) *at = instance->next;
  pthread_mutex_unlock(&tables);
  if (instance == NULL) return;
  instance->destroy(handle, allocator);
  free(instance);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
    const VkDeviceCreateInfo *info, const VkAllocationCallbacks *allocator, VkDevice *handle) {
  struct instance *instance = instance_of(physical);
  VkLayerDeviceCreateInfo *link = (VkLayerDeviceCreateInfo *)info->pNext;
  while (link != NULL && !(link->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO && link->function == VK_LAYER_LINK_INFO))
    link = (VkLayerDeviceCreateInfo *)link->pNext;
  if (instance == NULL || link == NULL) return VK_ERROR_INITIALIZATION_FAILED;
  PFN_vkGetInstanceProcAddr get_instance_proc = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  PFN_vkGetDeviceProcAddr get_proc = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  /* Gone between look-up and use. */
  if (atomic_load(&control[WORD_HIDDEN]) != 0) return VK_ERROR_DEVICE_LOST;

  VkResult result = ((PFN_vkCreateDevice)get_instance_proc(instance->handle, "vkCreateDevice"))(physical, info, allocator, handle);
  if (result != VK_SUCCESS) return result;
  struct device *device = calloc(1, sizeof *device);
  if (device == NULL) return VK_ERROR_OUT_OF_HOST_MEMORY;
  device->key = key_of(*handle);
  device->handle = *handle;
  device->get_proc = get_proc;
#define NEXT(field, type, name) device->field = (type)get_proc(*handle, name)
  NEXT(destroy, PFN_vkDestroyDevice, "vkDestroyDevice");
  NEXT(submit, PFN_vkQueueSubmit, "vkQueueSubmit");
  NEXT(submit2, PFN_vkQueueSubmit2, "vkQueueSubmit2");
  if (device->submit2 == NULL) NEXT(submit2, PFN_vkQueueSubmit2, "vkQueueSubmit2KHR");
  NEXT(wait_fences, PFN_vkWaitForFences, "vkWaitForFences");
  NEXT(fence_status, PFN_vkGetFenceStatus, "vkGetFenceStatus");
  NEXT(map, PFN_vkMapMemory, "vkMapMemory");
  NEXT(dispatch, PFN_vkCmdDispatch, "vkCmdDispatch");
  NEXT(queue_idle, PFN_vkQueueWaitIdle, "vkQueueWaitIdle");
  NEXT(device_idle, PFN_vkDeviceWaitIdle, "vkDeviceWaitIdle");
#undef NEXT
  pthread_mutex_lock(&tables);
  device->next = devices;
  devices = device;
  pthread_mutex_unlock(&tables);
  atomic_fetch_add(&control[WORD_LIVE_DEVICES], 1);
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice handle, const VkAllocationCallbacks *allocator) {
  if (handle == VK_NULL_HANDLE) return;
  void *key = key_of(handle);
  pthread_mutex_lock(&tables);
  struct device **at = &devices;
  while (*at != NULL && (*at)->key != key) at = &(*at)->next;
  struct device *device = *at;
  if (device != NULL) *at = device->next;
  pthread_mutex_unlock(&tables);
  if (device == NULL) return;
  device->destroy(handle, allocator);
  atomic_fetch_sub(&control[WORD_LIVE_DEVICES], 1);
  free(device);
}

static PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice handle, const char *name);
static PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance handle, const char *name);

struct hook {
  const char *name;
  PFN_vkVoidFunction function;
};

static PFN_vkVoidFunction find_hook(const struct hook *hooks, size_t count, const char *name) {
  for (size_t index = 0; index < count; index += 1)
    if (strcmp(hooks[index].name, name) == 0) return hooks[index].function;
  return NULL;
}

#define HOOK(name, function) {name, (PFN_vkVoidFunction)(function)}
#define FIND(hooks, name) find_hook(hooks, sizeof hooks / sizeof *hooks, name)

static const struct hook device_hooks[] = {
  HOOK("vkGetDeviceProcAddr", get_device_proc), HOOK("vkDestroyDevice", destroy_device),
  HOOK("vkQueueSubmit", queue_submit),          HOOK("vkQueueSubmit2", queue_submit2),
  HOOK("vkQueueSubmit2KHR", queue_submit2),     HOOK("vkWaitForFences", wait_for_fences),
  HOOK("vkGetFenceStatus", get_fence_status),   HOOK("vkMapMemory", map_memory),
  HOOK("vkCmdDispatch", cmd_dispatch),
  HOOK("vkQueueWaitIdle", queue_wait_idle),     HOOK("vkDeviceWaitIdle", device_wait_idle),
};

static const struct hook instance_hooks[] = {
  HOOK("vkGetInstanceProcAddr", get_instance_proc),
  HOOK("vkCreateInstance", create_instance),
  HOOK("vkDestroyInstance", destroy_instance),
  HOOK("vkEnumeratePhysicalDevices", enumerate_devices),
  HOOK("vkEnumeratePhysicalDeviceGroups", enumerate_groups),
  HOOK("vkEnumeratePhysicalDeviceGroupsKHR", enumerate_groups),
  HOOK("vkCreateDevice", create_device),
  HOOK("vkGetPhysicalDeviceProperties", get_properties),
  HOOK("vkGetPhysicalDeviceProperties2", get_properties2),
  HOOK("vkGetPhysicalDeviceProperties2KHR", get_properties2),
};

static PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice handle, const char *name) {
  PFN_vkVoidFunction below = device_of(handle)->get_proc(handle, name);
  PFN_vkVoidFunction ours = FIND(device_hooks, name);
  /* Offer only what the driver below offers too. */
  return below != NULL && ours != NULL ? ours : below;
}

static PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance handle, const char *name) {
  PFN_vkVoidFunction ours = FIND(instance_hooks, name);
  if (ours != NULL) return ours;
  struct instance *instance = handle == VK_NULL_HANDLE ? NULL : instance_of(handle);
  PFN_vkVoidFunction below = instance == NULL ? NULL : instance->get_proc(handle, name);
  ours = FIND(device_hooks, name);
  return below != NULL && ours != NULL ? ours : below;
}

VK_LAYER_EXPORT VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version) {
  if (version->loaderLayerInterfaceVersion > 2) version->loaderLayerInterfaceVersion = 2;
  version->pfnGetInstanceProcAddr = get_instance_proc;
  version->pfnGetDeviceProcAddr = get_device_proc;
  version->pfnGetPhysicalDeviceProcAddr = NULL;
  return VK_SUCCESS;
}
