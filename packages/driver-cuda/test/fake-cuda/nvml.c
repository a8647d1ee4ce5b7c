// The part of libnvidia-ml.so.1 that @egpu/driver-cuda reads.
#define _GNU_SOURCE
#include "state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  OK = 0,
  UNINITIALIZED = 1,
  INVALID_ARGUMENT = 2,
  NOT_SUPPORTED = 3,
  NOT_FOUND = 6,
  INSUFFICIENT_SIZE = 7,
  DRIVER_NOT_LOADED = 9,
  TIMEOUT = 10,
  GPU_IS_LOST = 15,
};

struct pci_info {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct memory { unsigned long long total, free, used; };
struct process_info { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; };
struct utilization { unsigned gpu, memory; };
struct event_data { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; };
struct field_value { unsigned id, scope; long long timestamp, latency; unsigned type; int result; unsigned long long value; };

static int initialized;
// NVML keeps the list of GPUs it found when it was initialised.
static unsigned known, known_count;

static struct machine *open_machine(void) {
  struct machine *machine = machine_open();
  while (machine && machine->nvml_hangs) sleep_ms(5);
  return machine;
}

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  struct machine *machine = open_machine();
  if (!machine) return DRIVER_NOT_LOADED;
  if (initialized++ == 0) {
    known = known_count = 0;
    for (unsigned i = 0; i < machine->gpu_count; i++)
      if (machine->gpus[i].present) known |= 1u << i, known_count++;
  }
  return OK;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) {
  if (!initialized) return UNINITIALIZED;
  initialized--;
  return OK;
}
const char *nvmlErrorString(int result) {
  return result == GPU_IS_LOST ? "GPU is lost" : result == DRIVER_NOT_LOADED ? "Driver Not Loaded" : "an error";
}
int nvmlSystemGetDriverVersion(char *version, unsigned length) {
  struct machine *machine = open_machine();
  if (!initialized) return UNINITIALIZED;
  snprintf(version, length, "%u.159.03", machine->driver_major);
  return OK;
}
int nvmlDeviceGetCount_v2(unsigned *count) {
  if (!initialized) return UNINITIALIZED;
  open_machine();
  *count = known_count;
  return OK;
}

static int attach(int index, void **device) {
  struct gpu *gpu = &open_machine()->gpus[index];
  gpu->attached++;
  if (gpu->lost || !gpu->present) return GPU_IS_LOST;
  *device = (void *)(uintptr_t)(index + 1);
  return OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned wanted, void **device) {
  if (!initialized) return UNINITIALIZED;
  for (unsigned i = 0, index = 0; i < MAX_GPUS; i++)
    if (known & 1u << i && index++ == wanted) return attach(i, device);
  return INVALID_ARGUMENT;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device) {
  if (!initialized) return UNINITIALIZED;
  struct machine *machine = open_machine();
  for (unsigned i = 0; i < machine->gpu_count; i++) {
    // NVML takes the domain with four digits as well as with eight.
    const char *own = machine->gpus[i].bus_id;
    if (known & 1u << i && (!strcasecmp(own, bus_id) || !strcasecmp(own + 4, bus_id))) return attach(i, device);
  }
  return NOT_FOUND;
}

// The GPU behind a handle; every query of a lost one fails.
static int gpu_of(void *device, struct gpu **gpu) {
  if (!initialized) return UNINITIALIZED;
  uintptr_t index = (uintptr_t)device - 1;
  if (index >= MAX_GPUS) return INVALID_ARGUMENT;
  *gpu = &open_machine()->gpus[index];
  return (*gpu)->lost || !(*gpu)->present ? GPU_IS_LOST : OK;
}

int nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *info) {
  struct gpu *gpu;
  int result = gpu_of(device, &gpu);
  if (result) return result;
  memset(info, 0, sizeof *info);
  snprintf(info->bus_id, sizeof info->bus_id, "%s", gpu->bus_id);
  info->pci_device_id = gpu->pci_device;
  info->pci_subsystem_id = gpu->pci_subsystem;
  return OK;
}
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) {
  struct gpu *gpu;
  int result = gpu_of(device, &gpu);
  if (result) return result;
  const uint8_t *u = gpu->uuid;
  snprintf(uuid, length, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2],
           u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
  return OK;
}
static int text(void *device, char *out, unsigned length, int serial) {
  struct gpu *gpu;
  int result = gpu_of(device, &gpu);
  if (result) return result;
  const char *value = serial ? gpu->serial : gpu->name;
  if (!*value) return NOT_SUPPORTED;
  snprintf(out, length, "%s", value);
  return OK;
}
int nvmlDeviceGetName(void *device, char *name, unsigned length) { return text(device, name, length, 0); }
int nvmlDeviceGetSerial(void *device, char *serial, unsigned length) { return text(device, serial, length, 1); }
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory) {
  struct gpu *gpu;
  int result = gpu_of(device, &gpu);
  if (result) return result;
  struct machine *machine = machine_open();
  memory->total = gpu->memory_total;
  memory->used = machine_memory_used(machine, gpu - machine->gpus);
  memory->free = memory->total - memory->used;
  return OK;
}

#define NUMBER(name, field)                     \
  int name(void *device, unsigned *value) {     \
    struct gpu *gpu;                            \
    int result = gpu_of(device, &gpu);          \
    if (result == OK) *value = gpu->field;      \
    return result;                              \
  }
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor) {
  struct gpu *gpu;
  int result = gpu_of(device, &gpu);
  if (result == OK) *minor = gpu - machine_open()->gpus;
  return result;
}
NUMBER(nvmlDeviceGetPowerUsage, power_mw)
NUMBER(nvmlDeviceGetPcieReplayCounter, replays)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, gen)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, max_gen)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, width)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, max_width)

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *value) {
  struct gpu *gpu;
  int result = gpu_of(device, &gpu);
  if (sensor != 0) return INVALID_ARGUMENT;
  if (result == OK) *value = gpu->temperature;
  return result;
}
int nvmlDeviceGetTemperatureThreshold(void *device, int type, unsigned *value) {
  struct gpu *gpu;
  int result = gpu_of(device, &gpu);
  if (type != 1 || !gpu->slowdown) return NOT_SUPPORTED;
  if (result == OK) *value = gpu->slowdown;
  return result;
}
int nvmlDeviceGetUtilizationRates(void *device, struct utilization *value) {
  struct gpu *gpu;
  int result = gpu_of(device, &gpu);
  if (result == OK) value->gpu = gpu->utilization, value->memory = 0;
  return result;
}
int nvmlDeviceGetPcieThroughput(void *device, int counter, unsigned *value) {
  struct gpu *gpu;
  int result = gpu_of(device, &gpu);
  sleep_ms(20);
  if (result == OK) *value = counter ? 2000 : 1000;
  return result;
}
int nvmlDeviceGetClockInfo(void *device, int type, unsigned *value) {
  struct gpu *gpu;
  int result = gpu_of(device, &gpu);
  if (result == OK) *value = 1000 + type;
  return result;
}
int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *value) {
  struct gpu *gpu;
  (void)type, (void)counter, (void)value;
  int result = gpu_of(device, &gpu);
  return result ? result : NOT_SUPPORTED;
}
int nvmlDeviceGetFieldValues(void *device, int count, struct field_value *values) {
  struct gpu *gpu;
  int result = gpu_of(device, &gpu);
  if (result) return result;
  for (int i = 0; i < count; i++) {
    values[i].result = values[i].id == 230 ? OK : NOT_SUPPORTED;
    values[i].type = 1;
    values[i].value = gpu->recovery_action;
  }
  return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process_info *infos) {
  struct gpu *gpu;
  int result = gpu_of(device, &gpu);
  if (result) return result;
  struct machine *machine = machine_open();
  unsigned found = 0;
  machine_lock(machine);
  for (int i = 0; i < MAX_PROCESSES; i++) {
    struct process *process = machine_process(machine, machine->processes[i].pid);
    if (!process || process->state == CHECKPOINTED || &machine->gpus[process->gpu] != gpu) continue;
    if (found < *count) {
      infos[found].pid = process->pid;
      infos[found].used = process->bytes;
      infos[found].gpu_instance = process->gpu_instance ? process->gpu_instance : 0xffffffff;
      infos[found].compute_instance = 0xffffffff;
    }
    found++;
  }
  machine_unlock(machine);
  int fits = found <= *count;
  *count = found;
  return fits ? OK : INSUFFICIENT_SIZE;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, struct process_info *infos) {
  struct gpu *gpu;
  (void)infos;
  int result = gpu_of(device, &gpu);
  *count = 0;
  return result;
}

// Events happened in this machine before the set was made are none of its business.
struct event_set { unsigned seen; unsigned long long wanted[MAX_GPUS]; };
int nvmlEventSetCreate(struct event_set **set) {
  if (!initialized) return UNINITIALIZED;
  *set = calloc(1, sizeof **set);
  (*set)->seen = open_machine()->event_count;
  return OK;
}
int nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *types) {
  struct gpu *gpu;
  *types = 0x8 | 0x4000;
  return gpu_of(device, &gpu);
}
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, struct event_set *set) {
  struct gpu *gpu;
  int result = gpu_of(device, &gpu);
  if (result == OK) set->wanted[gpu - machine_open()->gpus] = types;
  return result;
}
int nvmlEventSetWait_v2(struct event_set *set, struct event_data *data, unsigned timeout_ms) {
  struct machine *machine = machine_open();
  for (unsigned waited = 0; waited <= timeout_ms; waited += 2) {
    while (set->seen < machine->event_count) {
      struct event *event = &machine->events[set->seen++];
      if (!(set->wanted[event->gpu] & event->type)) continue;
      memset(data, 0, sizeof *data);
      data->device = (void *)(uintptr_t)(event->gpu + 1);
      data->type = event->type;
      data->data = event->data;
      return OK;
    }
    sleep_ms(2);
  }
  return TIMEOUT;
}
int nvmlEventSetFree(struct event_set *set) {
  free(set);
  return OK;
}
